package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trial is one run: a flow through a storm and, when that is over, to its end.
type trial struct {
	seed    uint64
	mistake mistake
	stormy  int // chunks
}

// result is what came of it.
type result struct {
	trial
	report   check.Report
	problems []string
	struck   string
	chunks   int
	left     int // groups of events that were left unanswered
	took     time.Duration
}

// patiences are how long a run may wait for partitions before it leaves them open. Short ones make that common.
var patiences = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second}

// runTimeout is for a machine with other things to do.
const runTimeout = 3 * time.Minute

func (t trial) run(ctx context.Context) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	begun := time.Now()
	cluster, err := newCluster("order.confirmed", "order.cancelled")
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	storm := newStorm(cluster, t.seed)
	rng := rand.New(rand.NewPCG(t.seed, 0))
	publisher, end, err := t.mistake.publisher(cluster, patiences[rng.IntN(len(patiences))])
	if err != nil {
		return nil, err
	}
	f := &flow{publisher: publisher, cluster: cluster, storm: storm, rng: rng, mistake: t.mistake,
		holds: map[scope]int{}, open: map[partition][]*relay.Event{}, acked: map[int64]bool{}}
	for f.chunks < t.stormy && ctx.Err() == nil {
		f.write(chunkMax)
		f.send(ctx)
	}
	storm.calm()
	for !f.done() && ctx.Err() == nil {
		f.send(ctx)
	}
	end() // what is still open with a mistake arrives
	if ctx.Err() != nil {
		return nil, fmt.Errorf("seed %d: not done within %s; %d queued, %d waiting, %d partitions open; struck: %s",
			t.seed, runTimeout, len(f.queue), len(f.waiting), len(f.open), storm)
	}
	records, err := cluster.records(ctx)
	return &result{
		trial: t, problems: f.problems, struck: storm.String(), chunks: f.chunks, left: f.retired,
		took:   time.Since(begun),
		report: check.Judge(check.History{Table: f.table(), Records: records, Audits: f.audits}),
	}, err
}

func (r *result) err() error {
	err := r.report.Err()
	for _, p := range r.problems[:min(len(r.problems), 5)] {
		err = errors.Join(err, errors.New(p))
	}
	return err
}

func (r *result) String() string {
	return fmt.Sprintf("seed %d: %s; %d chunks in %s, %d partitions left open; struck: %s", r.seed, r.report, r.chunks,
		r.took.Round(time.Millisecond), r.left, r.struck)
}

// seeds returns n seeds, or the one that is to be repeated.
func seeds(t *testing.T, n int) []uint64 {
	if given := os.Getenv("POSTHASTE_E2E_SEED"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("read POSTHASTE_E2E_SEED: %v", err)
		}
		return []uint64{seed}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = rand.Uint64()
	}
	return all
}

// runAll runs all trials at the same time: they wait for the client's pauses, not for the processor.
func runAll(t *testing.T, trials []trial) []*result {
	results, errs := make([]*result, len(trials)), make([]error, len(trials))
	var group sync.WaitGroup
	for i, trial := range trials {
		group.Go(func() { results[i], errs[i] = trial.run(t.Context()) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return results
}

// Whatever the brokers answer, and wherever connections end: nothing that was acknowledged is missing, first copies of
// a key are in order, and each failure has the class that says what it means.
func TestOrderUnderRandomFaults(t *testing.T) {
	t.Parallel()
	n := 24
	if testing.Short() {
		n = 4
	}
	var planned []trial
	for _, seed := range seeds(t, n) {
		planned = append(planned, trial{seed: seed, mistake: none, stormy: 15})
	}
	for _, r := range runAll(t, planned) {
		t.Log(r)
		if err := r.err(); err != nil {
			t.Errorf("repeat with POSTHASTE_E2E_SEED=%d: %v", r.seed, err)
		}
	}
}
