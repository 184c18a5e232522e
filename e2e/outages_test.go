package e2e_test

import (
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// outage is a way in which Kafka goes away, and comes back when the function that begin returns is called.
type outage struct {
	name  string
	begin func(b *bed, k *private) (end func())
}

var outages = []outage{
	{"killed", func(b *bed, k *private) func() {
		b.ok(k.broker.Kill())
		return func() {
			b.ok(k.broker.Restart(b.ctx))
			b.ok(k.cluster.WaitReady(b.ctx))
		}
	}},
	{"stopped", func(b *bed, k *private) func() {
		b.ok(k.broker.Pause())
		return func() { b.ok(k.broker.Resume()) }
	}},
	{"cut off", func(_ *bed, k *private) func() {
		k.network.Blackhole(true)
		return func() { k.network.Blackhole(false) }
	}},
}

// during takes Kafka away while it does something, and brings it back even if the test ends in between: other tests
// need the broker.
func (o outage) during(b *bed, k *private, do func()) {
	b.t.Helper()
	end := o.begin(b, k)
	defer end()
	do()
}

// Handed to the client is not acknowledged: while the broker answers nothing, nothing is settled, and afterwards all
// events arrive, once.
func TestNothingIsSettledWhileKafkaIsAway(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			mark, remove := newWaiting(t, "mark"), newWaiting(t, "delete")
			o.during(mark.b, ownKafka(t), func() {
				mark.write()
				remove.write()
				for over := time.Now().Add(span(6*time.Second, time.Minute)); time.Now().Before(over); {
					mark.look()
					remove.look()
					mark.b.letPass(100 * time.Millisecond)
				}
				mark.look()
				remove.look()
			})
			mark.arrive()
			remove.arrive()
		})
	}
}

// waiting is a relay with events that wait for Kafka.
type waiting struct {
	b        *bed
	relay    *process.Process
	arrivals *check.Follower
	ledger   []check.Event
}

const waitingEvents = 200

// newWaiting starts a relay and sees it work.
func newWaiting(t *testing.T, settle string) *waiting {
	t.Helper()
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	b.migrate()
	b.deletes = settle == "delete"
	w := &waiting{b: b}
	b.write("warm")
	w.ledger = b.readTable()
	w.relay = b.start(b.relay("POSTHASTE_RELAY_SETTLE=" + settle))
	w.arrivals = b.follow()
	b.expect(w.arrivals, 1, 20*time.Second)
	b.drain(10 * time.Second)
	return w
}

func (w *waiting) write() {
	w.b.t.Helper()
	w.b.writeMany(waitingEvents, 20)
	w.ledger = append(w.ledger, w.b.readTable()...) // in mode mark the first event twice, which is no harm
}

// look fails the test when any event is settled.
func (w *waiting) look() {
	w.b.t.Helper()
	open, err := check.Unpublished(w.b.ctx, w.b.db, table)
	w.b.ok(err)
	if len(open) != waitingEvents {
		w.b.t.Fatalf("%d events are unpublished while Kafka is away, want %d", len(open), waitingEvents)
	}
}

// arrive wants all events to be published now, once each.
func (w *waiting) arrive() {
	w.b.t.Helper()
	back := time.Now()
	w.b.expect(w.arrivals, 1+waitingEvents, 30*time.Second)
	w.b.t.Logf("all events are there %s after Kafka was back", time.Since(back).Round(time.Millisecond))
	w.b.drain(10 * time.Second)
	w.b.stop(w.relay)
	report := w.b.judge(check.History{Ledger: w.ledger})
	if err := report.Err(); err != nil {
		w.b.t.Error(err)
	}
	if report.Duplicates > 0 {
		w.b.t.Errorf("%d duplicates, want none", report.Duplicates)
	}
}
