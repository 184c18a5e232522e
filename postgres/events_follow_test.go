package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
)

var errEnough = errors.New("enough")

// follow runs a Follow and hands each event's id to want, until that returns false.
func follow(t *testing.T, e *postgres.Events, q postgres.EventFollow, want func(id int64) bool) {
	t.Helper()
	q.Interval = time.Millisecond
	if q.Note == nil {
		q.Note = func(text string) { t.Errorf("note: %s", text) }
	}
	deadline := time.AfterFunc(time.Minute, func() { panic("a follow never came to its end") })
	defer deadline.Stop()
	err := e.Follow(t.Context(), q, func(s postgres.StoredEvent) error {
		if want(s.ID) {
			return nil
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
}

// Events that commit late come, below others that were shown, each exactly once; a roll-back leaves nothing behind.
func TestFollowMissesNoLateCommit(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		early, late := connect(t, b.config), connect(t, b.config)
		prepared, rolledBack := connect(t, b.config), connect(t, b.config)
		insert := insertEvents("outbox_event", "1")
		exec(t, early, "begin", insert)            // 1, before anything is visible
		exec(t, b.admin, insert, insert)           // 2, 3
		exec(t, rolledBack, "begin", insert)       // 4
		exec(t, late, "begin", insert, insert)     // 5, 6
		exec(t, prepared, "begin", insert, insert) // 7, 8
		exec(t, prepared, "prepare transaction '"+b.name+"'")
		var got []int64
		follow(t, b.events(t), postgres.EventFollow{Last: 1}, func(id int64) bool {
			got = append(got, id)
			switch id {
			case 3: // the newest at the start
				exec(t, b.admin, insert) // 9
			case 9:
				exec(t, early, "commit")
			case 1:
				exec(t, rolledBack, "rollback")
				exec(t, late, "commit")
			case 6:
				exec(t, b.admin, insert) // 10
			case 10:
				exec(t, b.admin, "commit prepared '"+b.name+"'")
			}
			return id != 8
		})
		if want := []int64{3, 9, 1, 5, 6, 10, 7, 8}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestFollowBeginsAnewWithTheIDs(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	exec(t, b.admin, insertEvents("outbox_event", "5"))
	var got []int64
	again := func(string) { exec(t, b.admin, insertEvents("outbox_event", "2")) }
	follow(t, b.events(t), postgres.EventFollow{Last: 1, Note: again}, func(id int64) bool {
		if id == 5 {
			exec(t, b.admin, "truncate outbox_event restart identity")
		}
		got = append(got, id)
		return id != 2
	})
	if !slices.Equal(got, []int64{5, 1, 2}) {
		t.Errorf("after a truncation got %v", got)
	}
}

// Writers with every habit at once: each committed event is shown exactly once, in whatever order.
func TestFollowUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	const writers, each = 4, 50
	var group sync.WaitGroup
	for w := range writers {
		conn := connect(t, b.config)
		group.Go(func() {
			for i := range each {
				end := "commit"
				if i%5 == w%5 {
					end = "rollback"
				}
				for _, sql := range []string{"begin", insertEvents("outbox_event", fmt.Sprint(1+i%3)), end} {
					if _, err := conn.Exec(t.Context(), sql); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	var total atomic.Int64 // known when all have ended
	last := make(chan struct{})
	go func() {
		defer close(last)
		group.Wait()
		var n int64
		if err := b.admin.QueryRow(t.Context(), "select count(*) from outbox_event").Scan(&n); err != nil {
			t.Error(err)
		}
		total.Store(n + 1)
		if _, err := b.admin.Exec(t.Context(), insertEvents("outbox_event", "1")); err != nil {
			t.Error(err)
		}
	}()
	seen := map[int64]int{}
	follow(t, b.events(t), postgres.EventFollow{Last: 1000}, func(id int64) bool {
		seen[id]++
		n := total.Load()
		return n == 0 || int64(len(seen)) < n
	})
	<-last
	for id, n := range seen {
		if n != 1 {
			t.Errorf("event %d was shown %d times", id, n)
		}
	}
}
