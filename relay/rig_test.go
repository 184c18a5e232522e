package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	mu      sync.Mutex
	log     []*relay.Event
	fail    func(e *relay.Event) error // nil: everything is acknowledged
	gate    chan struct{}              // a value lets one chunk through; nil: all
	arrive  chan int                   // told of every chunk that came, when not nil
	away    error                      // what a ping meets
	cluster string                     // whose id a ping brings
	bound   []string                   // what Bind was told
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

func (k *fakeKafka) Ping(context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cluster, k.away
}

func (k *fakeKafka) Bind(cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bound = append(k.bound, cluster)
}

func (k *fakeKafka) Answers() <-chan []relay.Answer    { return nil }
func (k *fakeKafka) Partition(topic, key string) int32 { return -1 }
func (k *fakeKafka) Renew()                            {}
func (k *fakeKafka) Close()                            {}

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

// count tells how many events of the topic were acknowledged.
func (r *rig) count(topic string) (n int) {
	r.kafka.mu.Lock()
	defer r.kafka.mu.Unlock()
	for _, e := range r.kafka.log {
		if e.Topic == topic {
			n++
		}
	}
	return n
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
	return newRigIn(t, posthastetest.New(t), change)
}

// newRigIn is a rig over an outbox that is there already.
func newRigIn(t *testing.T, outbox *posthastetest.Outbox, change func(*rig)) *rig {
	t.Helper()
	r := &rig{Outbox: outbox, t: t, kafka: &fakeKafka{}, cfg: relay.Config{Interval: 20 * time.Millisecond}}
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

const insert = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
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

// parked lists what stands in the side table, in words.
func (r *rig) parked() (list string) {
	r.t.Helper()
	r.must(r.Pool.QueryRow(r.t.Context(), `
		select coalesce(string_agg(
			concat(id, ': ', scope, ' ', topic, ' ', key, ', ', class, ', ', attempts), '; ' order by id), '')
		from `+r.SideSchema+`.parked`).Scan(&list))
	return list
}

// side runs a statement on the side tables, whose schema the statement leaves out.
func (r *rig) side(sql string, args ...any) {
	r.t.Helper()
	r.exec(strings.NewReplacer("{{side}}", r.SideSchema, "{{base}}",
		"(select id from "+r.SideSchema+".outbox where topic_group = '')").Replace(sql), args...)
}

// until waits for a condition.
func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(30 * time.Second); !condition(); <-again.C {
		if time.Now().After(deadline) {
			sent := r.kafka.sent()
			r.t.Fatalf("never: %s; sent %d, the last of them %v; %d unpublished", what, len(sent),
				sent[max(0, len(sent)-20):], r.unpublished())
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
