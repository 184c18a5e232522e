package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

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
