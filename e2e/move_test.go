package e2e_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/e2e/process"
)

// The moves of docs/how-to-adopt.md, step by step, while writers go on: nothing is lost or sent twice, and whoever had
// one relay keeps the order of every key all the way there and back.
func TestMoveFromOneRelayAndBack(t *testing.T) {
	m := newMove(t)
	old := m.start(1, m.wrong("skip-locked"))
	m.flow()
	m.migrate() // beside the old relay: it never notices
	m.flow()
	m.stopAll(old)
	m.noneHoldsRows()
	ours := m.start(2, m.relay())
	m.awaitShares(2)
	m.flow()

	m.stopAll(ours)
	old = m.start(1, m.wrong("skip-locked"))
	m.flow()
	m.finish(old, nil)
}

// Several SKIP LOCKED relays lose the order of a key, and so does the mixed operation, no more than they did; it
// neither loses nor repeats an event. Between claim modes there is a stop, since lanes take no locks.
func TestMoveBesideSkipLockedRelaysAndBack(t *testing.T) {
	m := newMove(t)
	old := m.start(2, m.wrong("skip-locked"))
	m.flow()
	m.migrate()
	beside := m.start(1, m.relay("POSTHASTE_RELAY_CLAIM=skip-locked"))
	m.flow()
	m.stopAll(old[:1])
	beside = append(beside, m.start(1, m.relay("POSTHASTE_RELAY_CLAIM=skip-locked"))...)
	m.flow()
	m.stopAll(old[1:])
	m.flow()
	m.stopAll(beside)
	lanes := m.start(2, m.relay())
	m.awaitShares(2)
	m.flow()

	m.stopAll(lanes)
	beside = m.start(1, m.relay("POSTHASTE_RELAY_CLAIM=skip-locked"))
	old = m.start(2, m.wrong("skip-locked"))
	m.flow()
	m.stopAll(beside)
	m.flow()
	m.finish(old, func(check.Event) bool { return false })
}

// move is a bed whose writers never stop while relays come and go.
type move struct {
	*bed
	ledger  *load.Ledger
	writers sync.WaitGroup
	quiet   context.CancelFunc
	began   time.Time
}

func newMove(t *testing.T) *move {
	t.Helper()
	t.Parallel()
	return newMoveOn(t, newBed(t, pg15, oneBroker, "order.confirmed", "order.cancelled"))
}

func newMoveOn(t *testing.T, b *bed) *move {
	t.Helper()
	m := &move{bed: b, ledger: &load.Ledger{}, began: time.Now()}
	writing, quiet := context.WithCancel(m.ctx)
	m.quiet = quiet
	t.Cleanup(func() {
		quiet()
		m.writers.Wait()
	})
	p := load.Population{Prefix: "order-", Keys: 20, Locked: true, Workers: 8, Rate: 100,
		MaxHold: 300 * time.Millisecond,
		Topics:  m.topics, Seed: seedOf(t)}
	if err := p.Prepare(m.ctx, m.db); err != nil {
		t.Fatal(err)
	}
	m.writers.Go(func() {
		if err := p.Run(writing, m.db, table, m.ledger); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *move) start(n int, spec process.Spec) (all []*process.Process) {
	m.t.Helper()
	for range n {
		all = append(all, m.bed.start(spec))
	}
	return all
}

func (m *move) stopAll(relays []*process.Process) {
	m.t.Helper()
	for _, r := range relays {
		m.stop(r)
	}
}

// noneHoldsRows asks what the how-to asks: whether a relay that locks rows is still at work.
func (m *move) noneHoldsRows() {
	m.t.Helper()
	var holders int
	err := m.db.QueryRow(m.ctx, `
		select count(*) from pg_locks l join pg_stat_activity a using (pid)
		where l.relation = 'outbox_event'::regclass and l.mode = 'RowShareLock'`).Scan(&holders)
	if err != nil || holders > 0 {
		m.t.Errorf("%d transactions hold rows after the stop, %v", holders, err)
	}
}

// flow returns when the relays that run now have published many more events.
func (m *move) flow() {
	m.t.Helper()
	const enough = 200
	published := func() (n int) {
		if err := m.db.QueryRow(m.ctx, `select count(published_at) from `+table).Scan(&n); err != nil {
			m.t.Fatal(err)
		}
		return n
	}
	before := published()
	m.await(20*time.Second, "events flow", func() bool { return published() >= before+enough })
}

// finish ends the writers, lets the relays publish the rest, and wants nothing twice.
func (m *move) finish(relays []*process.Process, ordered func(check.Event) bool) {
	m.t.Helper()
	m.finishWith(relays, ordered, 0)
}

// finishWith is finish where so many events may come twice.
func (m *move) finishWith(relays []*process.Process, ordered func(check.Event) bool, twice int) {
	m.t.Helper()
	m.quiet()
	m.writers.Wait()
	m.drain(20 * time.Second)
	m.stopAll(relays)
	report := m.judge(check.History{Start: m.began, Ledger: m.ledger.Committed(), Ordered: ordered})
	m.t.Log(report)
	if err := report.Err(); err != nil {
		m.t.Error(err)
	}
	if report.Duplicates > twice {
		m.t.Errorf("%d duplicates, want at most %d", report.Duplicates, twice)
	}
}
