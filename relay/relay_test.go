package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/posthastetest"
	"posthaste.dev/posthaste/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeKafka is a Publisher that remembers what it acknowledged and fails as it is told.
type fakeKafka struct {
	mu     sync.Mutex
	log    []*relay.Event
	fail   func(e *relay.Event) error // nil: everything is acknowledged
	gate   chan struct{}              // a value lets one chunk through; nil: all
	arrive chan int                   // told of every chunk that came, when not nil
}

func (k *fakeKafka) Publish(ctx context.Context, events []*relay.Event) []error {
	if k.arrive != nil {
		k.arrive <- len(events)
	}
	errs := make([]error, len(events))
	if k.gate != nil {
		select {
		case <-k.gate:
		case <-ctx.Done():
			for i := range errs {
				errs[i] = ctx.Err()
			}
			return errs
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	failed := map[relay.TopicKey]bool{}
	for i, e := range events {
		key := relay.TopicKey{Topic: e.Topic, Key: e.Key}
		switch {
		case failed[key]:
			errs[i] = errors.New("behind a failure")
		case k.fail != nil:
			errs[i] = k.fail(e)
			failed[key] = errs[i] != nil
		}
		if errs[i] == nil {
			k.log = append(k.log, e)
		}
	}
	return errs
}

func (k *fakeKafka) Ping(context.Context) error { return nil }
func (k *fakeKafka) Close()                     {}

func (k *fakeKafka) setFail(f func(*relay.Event) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = f
}

func (k *fakeKafka) sent() []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []int64
	for _, e := range k.log {
		ids = append(ids, e.ID)
	}
	return ids
}

// rig is a relay over a real PostgreSQL and the fake.
type rig struct {
	*posthastetest.Outbox
	t     *testing.T
	kafka *fakeKafka
	cfg   relay.Config
	store postgres.Config
	relay *relay.Relay
	done  chan error
	stop  context.CancelFunc
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{Outbox: posthastetest.New(t), t: t, kafka: &fakeKafka{}, cfg: relay.Config{Interval: 20 * time.Millisecond}}
	r.cfg.Logger = slog.New(slog.DiscardHandler)
	conn, err := pgx.ParseConfig(r.URL)
	r.must(err)
	names, err := postgres.ParseNames(r.Table, r.SideSchema)
	r.must(err)
	r.store = postgres.Config{Conn: conn, Names: names, Member: t.Name(), Logger: r.cfg.Logger}
	if change != nil {
		change(r)
	}
	return r
}

func (r *rig) start() *rig {
	r.t.Helper()
	store, err := postgres.NewStore(r.store)
	r.must(err)
	r.relay, err = relay.New(store, r.kafka, r.cfg)
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.done = cancel, make(chan error, 1)
	done := r.done
	go func() { done <- r.relay.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(time.Minute):
			r.t.Error("the relay does not stop")
		}
	})
	return r
}

// end stops the relay and returns what Run returned.
func (r *rig) end() error {
	r.t.Helper()
	r.stop()
	return r.wait()
}

func (r *rig) wait() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err // for the clean-up
		return err
	case <-time.After(time.Minute):
		r.t.Fatal("the relay does not end")
		return nil
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

const insert = `insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', $2, 'order.confirmed.v1', '{}', $1, $2 from generate_series(1, $3::int)`

func (r *rig) write(topic, key string, n int) {
	r.t.Helper()
	r.exec(insert, topic, key, n)
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.Pool.Exec(r.t.Context(), sql, args...)
	r.must(err)
}

func (r *rig) begin() pgx.Tx {
	r.t.Helper()
	tx, err := r.Pool.Begin(r.t.Context())
	r.must(err)
	return tx
}

func (r *rig) unpublished() (n int) {
	r.t.Helper()
	r.must(r.Pool.QueryRow(r.t.Context(), `select count(*) from outbox_event where published_at is null`).Scan(&n))
	return n
}

// until waits for a condition.
func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(30 * time.Second); !condition(); <-again.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("never: %s; sent %v, %d unpublished", what, r.kafka.sent(), r.unpublished())
		}
	}
}

func (r *rig) untilDrained() {
	r.t.Helper()
	r.until("everything published", func() bool { return r.unpublished() == 0 })
}

func (r *rig) untilSent(ids ...int64) {
	r.t.Helper()
	r.until(fmt.Sprintf("sent %v", ids), func() bool { return slices.Equal(r.kafka.sent(), ids) })
}

// inOrder fails the test unless the first deliveries of each key are in id order and nothing is missing.
func (r *rig) inOrder(events int) {
	r.t.Helper()
	r.kafka.mu.Lock()
	defer r.kafka.mu.Unlock()
	last, seen := map[string]int64{}, map[int64]bool{}
	for _, e := range r.kafka.log {
		if !seen[e.ID] && e.ID < last[e.Key] {
			r.t.Fatalf("%d of key %s came after %d", e.ID, e.Key, last[e.Key])
		}
		seen[e.ID], last[e.Key] = true, max(last[e.Key], e.ID)
	}
	if len(seen) != events {
		r.t.Fatalf("%d events arrived, want %d", len(seen), events)
	}
}

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
	r.must(r.Pool.QueryRow(t.Context(), `select (select count(*) from "`+r.SideSchema+`".member), count(owner) from "`+r.SideSchema+`".lane`).
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

// C17 ThreeDotsLabs/watermill#311: "greater than the last id" skipped rows whose transaction committed late.
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

// C18 eugene-khyst/postgresql-event-sourcing#16: what two overlapping transactions of one key promise.
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

// C33: an id sequence that goes backwards hides nothing.
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
	r.exec(`insert into outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
overriding system value values (1000000000000, gen_random_uuid(), 'Order', 'far', 'order.confirmed.v1', '{}', 't', 'far')`)
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
			r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1`, "relay of "+r.Schema)
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
		r.must(r.Pool.QueryRow(t.Context(), `select 3 - count(*) from (select 1 from outbox_event for update skip locked) x`).Scan(&n))
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
	r := newRig(t, func(r *rig) {
		r.kafka.gate, r.kafka.arrive = make(chan struct{}), make(chan int, 100)
		r.cfg.Lease = 2 * time.Second // the grace after a gain of lanes goes by it
	}).start()
	for {
		r.write("t", "k", 1)
		select {
		case <-r.kafka.arrive:
			r.exec(`update outbox_event set published_at = now() where published_at is null`)
			r.kafka.gate <- struct{}{}
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
