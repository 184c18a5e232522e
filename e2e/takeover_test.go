package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// When a relay goes away, the events of its lanes flow again within a time that depends on how it went: the end of its
// lock's connection tells of a death at once, of a frozen relay only the lease does.
func TestTakeOver(t *testing.T) {
	tests := map[string]struct {
		harm   func(*process.Process)
		within time.Duration
		copies int // allowed
	}{
		"kill -9": {(*process.Process).Kill, 2 * time.Second, 2 * batchMax},
		"SIGTERM": {(*process.Process).Terminate, 2 * time.Second, 0},
		"SIGSTOP": {(*process.Process).Freeze, 10 * time.Second, 2 * batchMax},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, pg15, oneBroker, "order.confirmed")
			b.migrate()
			first, second := b.start(b.relay()), b.start(b.relay())
			b.awaitShares(2)
			arrivals := b.follow()
			const events = 256 // of as many keys, so all lanes have some
			b.writeMany(events, events)
			b.expect(arrivals, events, 30*time.Second) // by now every connection is there, and every topic known

			gone := time.Now()
			test.harm(first)
			b.writeMany(events, events)
			ctx, cancel := context.WithTimeout(b.ctx, test.within+20*time.Second)
			defer cancel()
			whole := func(all []check.Arrival) bool { return len(distinct(all)) == 2*events }
			all, err := arrivals.Wait(ctx, whole)
			if err != nil {
				t.Fatal(err)
			}
			took := all[len(all)-1].At.Sub(gone)
			t.Logf("all lanes flow %s after the relay went", took.Round(time.Millisecond))
			if took > test.within {
				t.Errorf("take-over took %s, want at most %s", took, test.within)
			}
			b.drain(10 * time.Second)
			first.Thaw()
			if name != "kill -9" {
				b.stop(first)
			}
			b.stop(second)
			report := b.judge(check.History{})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Duplicates > test.copies {
				t.Errorf("%d duplicates, want at most %d", report.Duplicates, test.copies)
			}
		})
	}
}

// awaitShares waits until that many relays own all lanes, evenly.
func (b *bed) awaitShares(relays int) {
	b.t.Helper()
	b.await(15*time.Second, fmt.Sprintf("%d relays share the lanes evenly", relays), func() bool {
		var owners, free, least, most int
		row := b.db.QueryRow(b.ctx, `
			select count(owner), coalesce(sum(lanes) filter (where owner is null), 0),
				coalesce(min(lanes) filter (where owner is not null), 0),
				coalesce(max(lanes) filter (where owner is not null), 0)
			from (select owner, count(*) as lanes from posthaste.lane group by owner) share`)
		if err := row.Scan(&owners, &free, &least, &most); err != nil {
			b.t.Fatal(err)
		}
		return owners == relays && free == 0 && most-least <= 1
	})
}

// distinct counts the copies of each event, by id.
func distinct(arrivals []check.Arrival) map[string]int {
	copies := map[string]int{}
	for _, a := range arrivals {
		copies[a.Header("event_id")]++
	}
	return copies
}
