package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
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

func TestStopSettlesWhatIsInFlight(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 100) })
	r.write("t", "k", 200)
	r.start()
	n := <-r.kafka.arrive
	r.stop()
	r.kafka.gate <- struct{}{}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if left := r.unpublished(); left != 200-n || len(r.kafka.sent()) != n {
		t.Errorf("%d sent and %d left of 200 after a stop with %d in flight", len(r.kafka.sent()), left, n)
	}
	var members, owned int
	r.must(r.Pool.QueryRow(t.Context(),
		`select (select count(*) from "`+r.SideSchema+`".member), count(owner) from "`+r.SideSchema+`".lane`).
		Scan(&members, &owned))
	if members != 0 || owned != 0 {
		t.Errorf("%d members and %d owned lanes are left behind", members, owned)
	}
}

func TestStopGivesUpAfterTheDrainTimeout(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 100)
		r.cfg.DrainTimeout = time.Second
	})
	r.write("t", "k", 3)
	r.start()
	<-r.kafka.arrive
	if err := r.end(); !errors.Is(err, relay.ErrDrainTimeout) {
		t.Errorf("run returned %v, want ErrDrainTimeout", err)
	}
	if left := r.unpublished(); left != 3 {
		t.Errorf("%d of 3 unpublished although nothing was acknowledged", left)
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
	r.until("two holds stand", func() bool { return r.relay.Stats().Held == 2 })
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

func TestTwoRelaysShareAndHandOver(t *testing.T) {
	var a, b *rig
	a = newRig(t, func(r *rig) { r.cfg.BeatInterval = 50 * time.Millisecond })
	b = &rig{Outbox: a.Outbox, t: t, kafka: a.kafka, cfg: a.cfg, store: a.store}
	a.start()
	a.until("the first has all lanes", func() bool { return a.relay.Stats().Lanes == 64 })
	b.start()
	b.until("both have half", func() bool { return a.relay.Stats().Lanes == 32 && b.relay.Stats().Lanes == 32 })
	for i := range 40 {
		a.write("t", fmt.Sprint("k", i), 20)
	}
	a.must(a.end())
	b.until("the second has all", func() bool { return b.relay.Stats().Lanes == 64 })
	b.untilDrained()
	b.inOrder(800)
	if got := len(a.kafka.sent()); got != 800 {
		t.Errorf("%d deliveries of 800 events through a clean hand-over", got)
	}
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

func TestSkipLocked(t *testing.T) {
	r := newRig(t, func(r *rig) { r.cfg.Claim = relay.ClaimSkipLocked })
	b := &rig{Outbox: r.Outbox, t: t, kafka: r.kafka, cfg: r.cfg, store: r.store}
	for i := range 30 {
		r.write("t", fmt.Sprint("k", i), 30)
	}
	r.start()
	b.start()
	r.untilDrained()
	if got := len(r.kafka.sent()); got != 900 {
		t.Errorf("%d deliveries of 900 events", got)
	}
	r.must(r.end())
}

func TestSkipLockedGivesRowsBackAfterTheClaimTimeout(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cfg.Claim, r.cfg.ClaimTimeout = relay.ClaimSkipLocked, time.Second
		r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 100)
	})
	r.write("t", "k", 3)
	r.start()
	<-r.kafka.arrive
	locked := func() (n int) {
		r.must(r.Pool.QueryRow(t.Context(),
			`select 3 - count(*) from (select 1 from outbox_event for update skip locked) x`).Scan(&n))
		return n
	}
	if n := locked(); n != 3 {
		t.Errorf("%d rows locked while Kafka works, want 3", n)
	}
	r.until("the rows are free", func() bool { return locked() == 0 })
	r.kafka.gate <- struct{}{}
	r.untilDrained()
	r.untilSent(1, 2, 3)
}

func TestLanesFindAForeignRelay(t *testing.T) {
	for how, sql := range map[string]string{
		"marks":   `update outbox_event set published_at = now() where published_at is null`,
		"deletes": `delete from outbox_event`,
	} {
		t.Run(how, func(t *testing.T) { findForeign(t, sql) })
	}
}

func findForeign(t *testing.T, sql string) {
	r := newRig(t, func(r *rig) {
		r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 100)
		r.cfg.Lease = 2 * time.Second // the grace after a gain of lanes goes by it
	}).start()
	for {
		r.write("t", "k", 1)
		select {
		case <-r.kafka.arrive:
			r.exec(sql)
			select {
			case r.kafka.gate <- struct{}{}:
			case err := <-r.done: // it noticed by another way, and gave the chunk up
				r.done <- err
			}
		case err := <-r.done:
			r.done <- err
			if !errors.Is(err, relay.ErrForeignRelay) {
				t.Errorf("run beside another relay: %v", err)
			}
			return
		case <-time.After(time.Minute):
			t.Fatal("the other relay is never noticed")
		}
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

// The number of lanes is changed while a dead relay still stands in the table as the owner of all.
func TestLanesChangeBehindADeadRelay(t *testing.T) {
	r := newRig(t, nil)
	store, err := postgres.NewStore(r.store)
	r.must(err)
	dead, err := store.Join(t.Context())
	r.must(err)
	_, err = dead.Act(t.Context(), nil, 64, 1)
	r.must(err)
	conn, err := r.Pool.Acquire(t.Context())
	r.must(err)
	defer conn.Release()
	_, err = postgres.SetLanes(t.Context(), conn.Conn(), r.store.Names, 128)
	r.must(err)
	dead.Close()
	r.start()
	r.until("the next relay has all new lanes", func() bool { return r.relay.Stats().Lanes == 128 })
	r.write("t", "k", 5)
	r.untilDrained()
}

func TestLanesChangeUnderLoad(t *testing.T) {
	var a, b *rig
	a = newRig(t, func(r *rig) { r.cfg.BeatInterval = 50 * time.Millisecond })
	b = &rig{Outbox: a.Outbox, t: t, kafka: a.kafka, cfg: a.cfg, store: a.store}
	a.start()
	b.start()
	conn, err := a.Pool.Acquire(t.Context())
	a.must(err)
	defer conn.Release()
	for _, lanes := range []int{16, 256, 1, 64} {
		_, err := postgres.SetLanes(t.Context(), conn.Conn(), a.store.Names, lanes)
		a.must(err)
		for i := range 20 {
			a.write("t", fmt.Sprint("k", i), 10)
		}
		a.until(fmt.Sprint("the relays share ", lanes), func() bool {
			s, u := a.relay.Stats(), b.relay.Stats()
			return s.LanesTotal == lanes && u.LanesTotal == lanes && s.Lanes+u.Lanes == lanes
		})
	}
	a.untilDrained()
	a.inOrder(800)
	if got := len(a.kafka.sent()); got != 800 {
		t.Errorf("%d deliveries of 800 events", got)
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

func TestStopWhileOnlyAReadWaits(t *testing.T) {
	r := newRig(t, func(r *rig) { r.cfg.DrainTimeout = time.Second }).start()
	r.write("t", "k", 1)
	r.untilDrained()
	locked := r.begin()
	_, err := locked.Exec(t.Context(), `lock table outbox_event in access exclusive mode`)
	r.must(err)
	defer func() { _ = locked.Rollback(context.Background()) }()
	var waiting bool
	r.until("a read waits for the table", func() bool {
		r.must(r.Pool.QueryRow(t.Context(),
			`select exists (select from pg_locks where relation = 'outbox_event'::regclass and not granted)`).
			Scan(&waiting))
		return waiting
	})
	if err := r.end(); err != nil {
		t.Errorf("a stop with nothing in flight: %v", err)
	}
}

func TestSkipLockedMarksAtTheStopWhatCameLate(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cfg.Claim, r.cfg.ClaimTimeout = relay.ClaimSkipLocked, time.Second
		r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 100)
	})
	r.write("t", "k", 3)
	r.start()
	<-r.kafka.arrive
	r.until("the claim has ended", func() bool {
		var n int
		r.must(r.Pool.QueryRow(t.Context(),
			`select count(*) from (select 1 from outbox_event for update skip locked) x`).Scan(&n))
		return n == 3
	})
	r.stop()
	r.kafka.gate <- struct{}{}
	r.must(r.wait())
	if left := r.unpublished(); left != 0 {
		t.Errorf("%d of 3 acknowledged events are left unmarked by a clean stop", left)
	}
}

// Marks that vanish, by hand or with a crash, are found by the sweep, all of them and not a batch at a time.
func TestSweepFindsAll(t *testing.T) {
	r := newRig(t, func(r *rig) { r.cfg.SweepInterval = time.Second })
	r.write("t", "k", 3000)
	r.start().untilDrained()
	r.exec(`update outbox_event set published_at = null`)
	r.untilDrained()
	if s := r.relay.Stats(); s.SweepFinds == 0 {
		t.Error("the sweep found nothing")
	}
}

// A relay that can't reach Kafka leaves the lanes to those that can.
func TestNoLanesWithoutKafka(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.away = errors.New("no route") }).start()
	r.until("the reason shows", func() bool { return strings.Contains(r.relay.Stats().Reason, "no route") })
	r.write("t", "k", 3)
	other := &rig{Outbox: r.Outbox, t: t, kafka: &fakeKafka{}, cfg: r.cfg, store: r.store}
	other.start()
	r.untilDrained()
	if s := other.relay.Stats(); s.Lanes != 64 || s.Relays != 1 {
		t.Errorf("the other relay has %d lanes and sees %d relays, want all lanes and itself alone", s.Lanes, s.Relays)
	}
	r.kafka.mu.Lock()
	r.kafka.away = nil
	r.kafka.mu.Unlock()
	r.until("both share", func() bool { return r.relay.Stats().Lanes == 32 && other.relay.Stats().Lanes == 32 })
}
