package e2e_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/e2e/process"
)

// trial is a load on relays that suffer harm.
type trial struct {
	relay    process.Spec
	relays   int
	slow     bool // the relays reach their database by proxies, for the harm called lag
	writers  []load.Population
	load     time.Duration
	strikes  []strike
	outage   func() // comes after the strikes and returns when it is over
	ordered  func(check.Event) bool
	patience time.Duration // how long nothing may move before it is judged; 30 seconds if zero
}

// outcome is what came of a trial.
type outcome struct {
	check.Report
	allowed    int // duplicates
	rolledBack int
	logged     int // lines
}

// run starts the relays and the writers, lets the strikes fall, waits until everything is published, or nothing moves
// any more, stops the relays and judges.
func (tr trial) run(t *testing.T, b *bed) outcome {
	t.Helper()
	history := check.History{Start: time.Now(), Ordered: tr.ordered}
	f := &fleet{b: b, spec: tr.relay, slow: tr.slow}
	t.Cleanup(f.pending.Wait) // its relays are killed before, if the test fails half way
	for range tr.relays {
		f.members = append(f.members, f.start())
	}
	ledger := &load.Ledger{}
	writing, stopWriting := context.WithTimeout(b.ctx, tr.load)
	auditing, stopAuditing := context.WithCancel(b.ctx)
	var writers, auditor sync.WaitGroup
	defer func() { // also when the test fails half way
		stopWriting()
		stopAuditing()
		writers.Wait()
		auditor.Wait()
	}()
	for _, p := range tr.writers {
		if err := p.Prepare(b.ctx, b.db); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			if err := p.Run(writing, b.db, table, ledger); err != nil {
				t.Error(err)
			}
		})
	}
	auditor.Go(func() { history.Audits = b.audit(auditing, ledger, tr.outage != nil) })

	f.run(tr.strikes)
	if tr.outage != nil {
		tr.outage()
	}
	writers.Wait()
	f.until(time.Now())
	if slices.ContainsFunc(tr.strikes, func(s strike) bool { return s.harm == refuse }) {
		b.letOut(10 * time.Minute)
	}
	b.drain(cmp.Or(tr.patience, 30*time.Second))
	stopAuditing()
	auditor.Wait()
	f.stop()
	history.Ledger = ledger.Committed()
	return outcome{b.judge(history), f.forgive * 2 * batchMax, ledger.RolledBack(), f.logged()}
}

// audit looks twice a second at what is marked until the context ends. A look may fail while Kafka is away.
func (b *bed) audit(ctx context.Context, ledger *load.Ledger, mayFail bool) []check.Audit {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.addrs...))
	if err != nil {
		b.t.Error(err)
		return nil
	}
	defer client.Close()
	auditor := check.NewAuditor(b.db, table, client, b.topics)
	var audits []check.Audit
	for {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return audits
		}
		var committed []string
		for _, e := range ledger.Committed() {
			committed = append(committed, e.EventID)
		}
		a, err := auditor.Audit(ctx, committed)
		if ctx.Err() != nil {
			return audits
		}
		if err != nil && !mayFail {
			b.t.Error(err)
			return audits
		}
		if err == nil {
			audits = append(audits, a)
		}
	}
}
