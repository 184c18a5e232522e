package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste.dev/posthaste/e2e/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trial is one run: a flow through a storm and, when that is over, to its end.
type trial struct {
	seed     uint64
	report   check.Report
	problems []string
	struck   string
	chunks   int
	took     time.Duration
}

const (
	runs       = 24
	stormyFor  = 20 // chunks
	runTimeout = 50 * time.Second
)

func run(ctx context.Context, seed uint64, m mistake) (t trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	begun := time.Now()
	cluster, err := newCluster("order.confirmed", "order.cancelled")
	if err != nil {
		return t, err
	}
	defer cluster.Close()
	storm := newStorm(cluster, seed)
	publisher, end, err := m.publisher(cluster)
	if err != nil {
		return t, err
	}
	defer end()
	f := &flow{publisher: publisher, cluster: cluster, storm: storm, rng: rand.New(rand.NewPCG(seed, 0)), mistake: m,
		holds: map[scope]int{}, acked: map[int64]bool{}}
	for f.chunks < stormyFor && ctx.Err() == nil {
		f.write(chunkMax)
		f.send(ctx)
	}
	storm.calm()
	for !f.done() && ctx.Err() == nil {
		f.send(ctx)
	}
	if ctx.Err() != nil {
		return t, fmt.Errorf("seed %d: not done within %s; %d queued, %d waiting; struck: %s", seed, runTimeout,
			len(f.queue), len(f.waiting), storm)
	}
	records, err := cluster.records(ctx)
	return trial{
		seed: seed, problems: f.problems, struck: storm.String(), chunks: f.chunks, took: time.Since(begun),
		report: check.Judge(check.History{Table: f.table(), Records: records, Audits: f.audits}),
	}, err
}

func (t trial) err() error {
	err := t.report.Err()
	if len(t.problems) > 0 {
		err = errors.Join(err, errors.New(strings.Join(t.problems[:min(len(t.problems), 5)], "\n")))
	}
	return err
}

func (t trial) String() string {
	return fmt.Sprintf("seed %d: %s; %d chunks in %.1f s; struck: %s", t.seed, t.report, t.chunks, t.took.Seconds(), t.struck)
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
	var all []uint64
	for i := range n {
		all = append(all, uint64(time.Now().UnixNano())+uint64(i))
	}
	return all
}

// trials runs all seeds at the same time: they wait for the client's pauses, not for the processor.
func trials(t *testing.T, m mistake, seeds []uint64) []trial {
	all, errs := make([]trial, len(seeds)), make([]error, len(seeds))
	var group sync.WaitGroup
	for i, seed := range seeds {
		group.Go(func() { all[i], errs[i] = run(t.Context(), seed, m) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever the brokers answer, and wherever connections end: nothing that was acknowledged is missing, first copies of a key are in
// order, and each failure has the class that says what it means.
func TestOrderUnderRandomFaults(t *testing.T) {
	t.Parallel()
	for _, run := range trials(t, none, seeds(t, runs)) {
		t.Log(run)
		if err := run.err(); err != nil {
			t.Errorf("POSTHASTE_E2E_SEED=%d: %v", run.seed, err)
		}
	}
}
