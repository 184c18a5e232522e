package relay_test

import (
	"slices"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// Topics with a longer interval are collected, the others flow meanwhile.
func TestPatientTopicsAreCollected(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cfg.Topics = []relay.TopicRule{{Match: "analytics.*", Interval: 2 * time.Second},
			{Match: "never.*", Interval: time.Hour}}
	})
	r.write("analytics.warm-up", "a", 1)
	r.start().untilDrained() // the intervals begin here
	began := time.Now()
	for range 20 {
		r.write("analytics.clicked", "a", 1)
		r.write("orders", "k", 1)
		r.write("never.read", "n", 1)
	}
	r.until("the orders are sent", func() bool { return r.count("orders") == 20 })
	if n := r.count("analytics.clicked"); n > 0 && time.Since(began) < time.Second {
		t.Errorf("%d events did not wait for their interval", n)
	}
	r.until("the collected ones are sent", func() bool { return r.count("analytics.clicked") == 20 })
	if n := r.count("never.read"); n > 0 {
		t.Errorf("%d events with an interval of an hour were sent", n)
	}
	if r.must(r.end()); r.unpublished() != 20 {
		t.Errorf("%d are unpublished, want the 20 whose time has not come", r.unpublished())
	}
}

// The same in claim mode skip-locked.
func TestSkipLockedCollectsPatientTopics(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cfg.Claim = relay.ClaimSkipLocked
		r.cfg.Topics = []relay.TopicRule{{Match: "never.*", Interval: time.Hour}}
	}).start()
	r.write("orders", "k", 1)
	r.untilDrained()
	r.write("never.read", "n", 5)
	r.write("orders", "k", 5)
	r.until("the orders are sent", func() bool { return r.count("orders") == 6 })
	if n := r.count("never.read"); n > 0 {
		t.Errorf("%d events with an interval of an hour were sent", n)
	}
}

// Each group of topics has relays of its own; the rest has those without a group.
func TestGroupsShareTheTopics(t *testing.T) {
	rest := newRig(t, nil)
	for name, topics := range map[string][]relay.Pattern{"critical": {"orders.*"}, "slow": {"page.*"}} {
		conn, err := rest.Pool.Acquire(t.Context())
		rest.must(err)
		rest.must(postgres.SetGroup(t.Context(), conn.Conn(), rest.store.Names,
			postgres.TopicGroup{Name: name, Topics: topics}))
		conn.Release()
	}
	of := func(name string) *rig {
		r := *rest
		r.kafka = &fakeKafka{}
		r.store.Names.Group = name
		return r.start()
	}
	rest.start()
	critical, slow := of("critical"), of("slow")
	for range 10 {
		for _, topic := range []string{"orders.confirmed", "orders", "page.clicked", "other"} {
			rest.write(topic, "k", 3)
		}
	}
	rest.untilDrained()
	for _, c := range []struct {
		r      *rig
		topics []string
	}{{rest, []string{"orders", "other"}}, {critical, []string{"orders.confirmed"}}, {slow, []string{"page.clicked"}}} {
		if n := len(c.r.kafka.sent()); n != 30*len(c.topics) {
			t.Errorf("the relay of %v sent %d events", c.topics, n)
		}
		c.r.kafka.mu.Lock()
		for _, e := range c.r.kafka.log {
			if !slices.Contains(c.topics, e.Topic) {
				t.Errorf("the relay of %v sent one of %s", c.topics, e.Topic)
			}
		}
		c.r.kafka.mu.Unlock()
	}
}
