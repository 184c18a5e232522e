package e2e_test

import (
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/proxy"
)

// What networks do between relay and broker: each strikes while events are in flight and others come, and all arrive,
// once and in order. What the broker has taken and could not say so is sent again, and known again by its number.
func TestNetworkInTrouble(t *testing.T) {
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	b.migrate()
	network := ownKafka(t).network
	long := span(1500*time.Millisecond, time.Minute)
	strikes := []struct {
		name string
		do   func()
	}{
		{"delays", func() {
			network.Delay(200 * time.Millisecond)
			b.letPass(long)
			network.Delay(0)
		}},
		{"blackholes", func() {
			network.Blackhole(true)
			b.letPass(long)
			network.Blackhole(false)
		}},
		{"drops what was sent, and its connections", func() {
			network.Blackhole(true)
			b.letPass(time.Second)
			network.Cut()
			network.Blackhole(false)
		}},
		{"half-closes, as the broker does", func() { network.HalfClose(proxy.Target) }},
		{"half-closes, as the relay does", func() { network.HalfClose(proxy.Client) }},
		{"half-closes, and lets nothing through", func() {
			network.HalfClose(proxy.Target)
			network.Blackhole(true)
			b.letPass(long)
			network.Blackhole(false)
		}},
	}
	relay := b.start(b.relay())
	stop := b.writeSteadily()
	for range int(span(1, 5)) {
		for _, strike := range strikes {
			b.await(20*time.Second, "events arrive before the network "+strike.name, b.more(5))
			b.writeMore(20 * batchMax)
			b.await(20*time.Second, "some of them are in flight", b.more(batchMax))
			strike.do()
			b.await(20*time.Second, "events arrive after the network "+strike.name, b.more(5))
		}
	}
	stop()
	b.finish(relay)
}

// more tells whether so many records have come to the bed's first topic since now.
func (b *bed) more(n int64) func() bool {
	before := b.recordsOf(b.topics[0])
	return func() bool { return b.recordsOf(b.topics[0]) >= before+n }
}

// writeMore commits events of keys that nobody else writes.
func (b *bed) writeMore(events int) {
	b.t.Helper()
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', $1, 'more-' || n % 50
		from generate_series(1, $2::int) n`, b.topics[0], events)
}
