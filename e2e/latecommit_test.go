package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/e2e/check"
)

// Ids are drawn before the commit, so an event can become visible long after thousands with higher ids were sent. It
// has to be found all the same, and ids that never come must hold nothing up.
func TestLateCommitIsFound(t *testing.T) {
	for name, disturb := range map[string]bool{"undisturbed": false, "relay restarted and lanes moved": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, pg15, oneBroker, "order.confirmed")
			b.migrate()
			relay := b.start(b.relay())
			arrivals := b.follow()

			late, lateID := b.open("k1")
			for range 50 {
				b.writeMany(100, 300)
			}
			gap, _ := b.open("k2")
			b.end(gap.Rollback)
			b.expect(arrivals, 5000, 20*time.Second)
			if disturb {
				b.stop(relay)
				relay = b.start(b.relay())
				other := b.start(b.relay())
				b.awaitShares(2)
				b.stop(other)
				b.awaitShares(1)
			}
			// Time enough for the relay to learn which ids are final, had it not the open transaction to see.
			b.letPass(span(3*time.Second, 90*time.Second))
			b.write("k2")
			b.expect(arrivals, 5001, 2*time.Second)

			b.end(late.Commit)
			controlID := b.write("k3")
			came := map[string]time.Time{}
			for _, a := range b.expect(arrivals, 5003, 10*time.Second) {
				came[a.Header("outbox_id")] = a.At
			}
			// It need not wait for another read than one that comes later and has nothing special. The time between
			// the two says so on a machine under load, too.
			behind := came[fmt.Sprint(lateID)].Sub(came[fmt.Sprint(controlID)])
			t.Logf("the late event came %s after one that was written after its commit", behind)
			if behind > 500*time.Millisecond {
				t.Errorf("that is more than an interval of the relay")
			}
			b.drain(5 * time.Second)
			b.stop(relay)
			if err := b.judge(check.History{Ordered: notKey("k1")}).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func notKey(key string) func(check.Event) bool {
	return func(e check.Event) bool { return e.Key != key }
}

// Two transactions of one key overlap: id 1 is drawn first and commits last.
func TestOrderOfOverlappingWriters(t *testing.T) {
	tests := map[string]struct {
		order    string
		rollBack bool // of the first
		want     []string
	}{
		"key: as they become visible":   {"key", false, []string{"2", "1"}},
		"strict: by id":                 {"strict", false, []string{"1", "2"}},
		"key: the first rolled back":    {"key", true, []string{"2"}},
		"strict: the first rolled back": {"strict", true, []string{"2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, pg15, oneBroker, "order.confirmed")
			b.migrate()
			relay := b.start(b.relay("POSTHASTE_RELAY_ORDER=" + test.order))
			b.awaitShares(1)
			arrivals := b.follow()

			first, _ := b.open("k")
			b.write("k")
			if test.order == "key" {
				b.expect(arrivals, 1, 2*time.Second)
				b.letPass(span(0, 5*time.Second))
			} else {
				b.expectNone(arrivals, span(3*time.Second, 5*time.Second))
			}
			if test.rollBack {
				b.end(first.Rollback)
			} else {
				b.end(first.Commit)
			}
			var ids []string
			for _, a := range b.expect(arrivals, len(test.want), 2*time.Second) {
				ids = append(ids, a.Header("outbox_id"))
			}
			if !slices.Equal(ids, test.want) {
				t.Errorf("events came as %v, want %v", ids, test.want)
			}
			b.drain(5 * time.Second)
			b.stop(relay)
		})
	}
}

// Strict order waits for writers of the outbox, not for others who happen to have a transaction open.
func TestStrictOrderDoesNotWaitForOtherTables(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	b.exec(`create table elsewhere (n integer)`)
	relay := b.start(b.relay("POSTHASTE_RELAY_ORDER=strict"))
	b.awaitShares(1)
	arrivals := b.follow()
	foreign := b.begin()
	if _, err := foreign.Exec(b.ctx, `insert into elsewhere values (1)`); err != nil {
		t.Fatal(err)
	}
	b.write("k")
	b.expect(arrivals, 1, 2*time.Second)
	b.end(foreign.Rollback)
	b.drain(5 * time.Second)
	b.stop(relay)
}

// begin begins a transaction, which ends with the test if not before.
func (b *bed) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.db.Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // an error says that it has ended
	return tx
}

// open begins a transaction that has written one event.
func (b *bed) open(key string) (pgx.Tx, int64) {
	b.t.Helper()
	tx := b.begin()
	id, err := b.insert(tx, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return tx, id
}

// end commits or rolls back.
func (b *bed) end(how func(context.Context) error) {
	b.t.Helper()
	if err := how(b.ctx); err != nil {
		b.t.Fatal(err)
	}
}

// expect waits for exactly that many records in all.
func (b *bed) expect(f *check.Follower, records int, within time.Duration) []check.Arrival {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	all, err := f.Wait(ctx, func(all []check.Arrival) bool { return len(all) >= records })
	if err != nil {
		b.t.Fatalf("want %d records within %s: %v", records, within, err)
	}
	if len(all) > records {
		b.t.Fatalf("%d records came, want %d", len(all), records)
	}
	return all
}

// expectNone fails the test when a record comes within the time.
func (b *bed) expectNone(f *check.Follower, within time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if all, err := f.Wait(ctx, func(all []check.Arrival) bool { return len(all) > 0 }); err == nil {
		b.t.Fatalf("event %s came, want none", all[0].Header("outbox_id"))
	}
}
