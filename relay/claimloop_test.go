package relay_test

import (
	"fmt"
	"testing"
	"time"

	"posthaste.dev/posthaste/relay"
)

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
