package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"posthaste.dev/posthaste/relay"
)

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
