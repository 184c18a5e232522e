package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

func TestOrderThroughOutages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := newRig(t, func(r *rig) {
		r.kafka.fail = func(*relay.Event) error {
			if rnd.IntN(30) == 0 {
				return errors.New("simulated outage")
			}
			return nil
		}
	})
	for i := range 60 {
		r.write("t", fmt.Sprint("k", i%7), 5)
	}
	r.start().untilDrained()
	r.inOrder(300)
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if got := len(r.kafka.sent()); got != 300 {
		t.Errorf("%d deliveries of 300 events without a kill or a stall", got)
	}
}

func TestFailureStopsOnlyItself(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.kafka.fail = func(e *relay.Event) error {
			switch {
			case e.Topic == "missing":
				return &relay.Failure{Class: relay.TopicUnusable, Err: errors.New("no such topic")}
			case e.Key == "bad":
				return &relay.Failure{Class: relay.Refused, Err: errors.New("too large")}
			}
			return nil
		}
	})
	r.write("missing", "a", 200)
	r.write("t", "bad", 200)
	r.write("t", "good", 200)
	r.start()
	r.until("the healthy key flows", func() bool { return len(r.kafka.sent()) == 200 })
	r.until("the topic waits", func() bool { return r.relay.Stats().Held == 1 })
	r.until("the event is parked", func() bool { return r.parked() == "201: key t bad, refused, 1" })
	if s := r.relay.Stats(); s.Oldest == 0 || s.Errors["refused"] == 0 || s.Errors["topic"] == 0 {
		t.Errorf("waiting events do not show: %+v", s)
	}
	// The topic is looked at again by itself, a second later.
	r.kafka.setFail(func(e *relay.Event) error {
		if e.Key == "bad" {
			return &relay.Failure{Class: relay.Refused, Err: errors.New("too large")}
		}
		return nil
	})
	r.until("the topic comes back", func() bool { return len(r.kafka.sent()) == 400 })
	r.inOrder(400)
	r.until("all but the refused key is marked", func() bool { return r.unpublished() == 200 })
}

// ThreeDotsLabs/watermill#311: "greater than the last id" skipped rows whose transaction committed late.
func TestLateCommitArrives(t *testing.T) {
	r := newRig(t, nil).start()
	late := r.begin()
	_, err := late.Exec(t.Context(), insert, "t", "late", 1)
	r.must(err)
	gone := r.begin()
	_, err = gone.Exec(t.Context(), insert, "t", "gone", 1)
	r.must(err)
	r.must(gone.Rollback(t.Context()))
	r.write("t", "k", 5000)
	r.until("what was committed arrives", func() bool { return len(r.kafka.sent()) == 5000 })
	r.untilDrained()
	r.must(late.Commit(t.Context()))
	r.until("the late one arrives", func() bool { return slices.Contains(r.kafka.sent(), 1) })
	r.untilDrained()
}

// eugene-khyst/postgresql-event-sourcing#16: what two overlapping transactions of one key promise.
func TestStrictOrderWaitsForOpenWriters(t *testing.T) {
	for _, roll := range []bool{false, true} {
		t.Run(fmt.Sprint("rolled back ", roll), func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.cfg.Order = relay.OrderStrict }).start()
			r.exec(`create table elsewhere (n int)`)
			foreign := r.begin() // never touches the outbox, so it delays nothing
			_, err := foreign.Exec(t.Context(), `insert into elsewhere values (1)`)
			r.must(err)
			defer func() { _ = foreign.Rollback(context.Background()) }()
			r.write("t", "before", 1)
			r.untilSent(1)
			a := r.begin()
			_, err = a.Exec(t.Context(), insert, "t", "k", 1)
			r.must(err)
			r.write("t", "k", 1)
			reads := r.relay.Stats().Reads // of the next three at least two began after the write
			r.until("the relay has looked again", func() bool { return r.relay.Stats().Reads >= reads+3 })
			if got := r.kafka.sent(); !slices.Equal(got, []int64{1}) {
				t.Fatalf("sent %v while an older writer is open", got)
			}
			if roll {
				r.must(a.Rollback(t.Context()))
				r.untilSent(1, 3)
			} else {
				r.must(a.Commit(t.Context()))
				r.untilSent(1, 2, 3)
			}
		})
	}
}

// An id sequence that goes backwards hides nothing.
func TestSequenceGoesBackwards(t *testing.T) {
	r := newRig(t, nil).start()
	r.write("t", "k", 1000)
	r.untilDrained()
	r.exec(`truncate outbox_event restart identity`)
	r.write("t", "k", 1)
	r.untilDrained()
	r.exec(`alter table outbox_event alter column id restart with 500`)
	r.write("t", "k", 100)
	r.untilDrained()
	r.exec(`
insert into outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
overriding system value
values (1000000000000, gen_random_uuid(), 'Order', 'far', 'order.confirmed.v1', '{}', 't', 'far')`)
	r.untilDrained()
	r.write("t", "k", 10)
	r.untilDrained()
	if got := len(r.kafka.sent()); got != 1112 {
		t.Errorf("%d deliveries, want 1,112", got)
	}
}

func TestDatabaseConnectionsBreak(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.store.Conn.RuntimeParams["application_name"] = "relay of " + r.Schema
	}).start()
	for i := range 20 {
		r.write("t", fmt.Sprint("k", i%3), 50)
		if i%5 == 0 {
			r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1`,
				"relay of "+r.Schema)
		}
	}
	r.untilDrained()
	r.inOrder(1000)
}

func TestRelayRunsOnce(t *testing.T) {
	r := newRig(t, nil).start()
	r.must(r.end())
	if err := r.relay.Run(t.Context()); err == nil {
		t.Error("a relay ran twice")
	}
}

func TestPermanentErrorEndsRun(t *testing.T) {
	r := newRig(t, nil)
	r.exec(`drop index "` + r.Schema + `".ix_outbox_event_unpublished`)
	err := r.start().wait()
	if _, ok := errors.AsType[*relay.Permanent](err); !ok || !strings.Contains(err.Error(), "posthaste migrate up") {
		t.Errorf("run over a table without its index: %v", err)
	}
}

// A pooler without prepared statements needs another way to send statements; each way carries a relay.
func TestEveryWayToSendStatements(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.store.Conn.DefaultQueryExecMode = mode })
			r.kafka.fail = func(e *relay.Event) error {
				if e.Key == "bad" {
					return &relay.Failure{Class: relay.Refused, Err: errors.New("too large")}
				}
				return nil
			}
			r.write("t", "bad", 1)
			r.start()
			for i := range 10 {
				r.write("t", fmt.Sprint("k", i), 30)
			}
			r.until("all but the refused one is marked", func() bool { return r.unpublished() == 1 })
			r.must(r.end())
			if got := len(r.kafka.sent()); got != 300 {
				t.Errorf("%d deliveries of 300 events", got)
			}
		})
	}
}

// Ids that are in memory come back as those of other rows.
func TestTruncateWithAChunkInFlight(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 1000) })
	r.write("t", "old", 40)
	r.start()
	<-r.kafka.arrive
	r.exec(`truncate outbox_event restart identity`)
	r.write("t", "new", 40)
	go func() {
		for {
			select {
			case r.kafka.gate <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	r.untilDrained()
}

// Marks that vanish, by hand or with a crash, are found by the sweep, all of them and not a batch at a time.
func TestSweepFindsAll(t *testing.T) {
	r := newRig(t, nil)
	r.write("t", "k", 3000)
	r.start().untilDrained()
	r.exec(`update outbox_event set published_at = null`)
	r.untilDrained()
	if s := r.relay.Stats(); s.SweepFinds == 0 {
		t.Error("the sweep found nothing")
	}
}
