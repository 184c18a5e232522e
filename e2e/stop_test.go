package e2e_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/e2e/process"
)

// drainTimeout of the relays in this file.
const drainTimeout = 3 * time.Second

// A relay that is asked to stop while answers of the broker are two seconds away waits for them: what the broker has
// taken is marked, so nothing is sent twice. The stops at random moments under load are part of the chaos tests.
func TestStopWaitsForTheChunkInFlight(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	relay, over := b.inFlight(2 * time.Second)
	b.stop(relay)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	next := b.start(b.relay())
	b.awaitShares(1)
	b.finish(next)
}

// A second signal means now, and the exit status says that the stop was not clean.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	relay, over := b.inFlight(5 * time.Second)
	relay.Terminate()
	b.letPass(time.Second) // the system makes one of two signals that come close together
	relay.Terminate()
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second) // the broker is silent for longer
	defer cancel()
	if status, err := relay.Wait(ctx); err != nil || status != 130 {
		t.Errorf("after the second signal: status %d, %v; want 130 at once", status, err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// A relay that gives lanes to a newcomer keeps them until what it has in flight is settled; else the newcomer would
// send it again.
func TestHandOverWaitsForTheChunkInFlight(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	first, over := b.inFlight(4 * time.Second) // long enough for members to see one another
	second := b.start(b.relay())
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	b.awaitShares(2)
	b.finish(first, second)
}

// Stops at random moments of a load whose answers are two seconds away send nothing twice.
func TestStopsUnderLoadSendNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	b.migrate()
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var strikes []strike
	var at time.Duration
	for range int(span(2, 20)) {
		at += 2*time.Second + time.Duration(rng.Int64N(int64(3*time.Second)))
		strikes = append(strikes, strike{at: at, harm: terminate})
	}
	writers := bursty(b, seed)
	writers.Rate = 30 // what comes by a slow network of so few bytes at a time
	network := ownKafka(t).network
	network.Delay(time.Second) // there and back
	defer network.Delay(0)
	out := trial{
		relay:   b.relay("POSTHASTE_RELAY_BATCH_MAX=2000"),
		relays:  1,
		writers: []load.Population{writers},
		load:    at + 2*time.Second,
		strikes: strikes,
	}.run(t, b)
	t.Logf("%s; %d stops", out, len(strikes))
	if err := out.Err(); err != nil {
		t.Error(err)
	}
	if out.Duplicates > 0 {
		t.Errorf("%d duplicates, want none", out.Duplicates)
	}
}

// inFlight starts a relay, silences the broker for a while and gives the relay events of all lanes to send. It returns
// when they are in flight; the channel tells when the broker answers again.
func (b *bed) inFlight(silence time.Duration) (*process.Process, <-chan error) {
	b.t.Helper()
	b.migrate()
	relay := b.start(b.relay("POSTHASTE_RELAY_BATCH_MAX=2000"))
	arrivals := b.follow()
	b.write("warm")
	b.expect(arrivals, 1, 15*time.Second)
	broker := ownKafka(b.t).broker
	b.ok(broker.Pause())
	over := make(chan error, 1)
	time.AfterFunc(silence, func() { over <- broker.Resume() })
	b.writeMany(300, 300)
	b.letPass(700 * time.Millisecond) // longer than the interval of the relay's reads
	return relay, over
}

// finish waits until all is published, stops the relays, and wants no fault and nothing twice.
func (b *bed) finish(relays ...*process.Process) {
	b.t.Helper()
	b.drain(15 * time.Second)
	for _, relay := range relays {
		b.stop(relay)
	}
	report := b.judge(check.History{})
	if err := report.Err(); err != nil {
		b.t.Error(err)
	}
	if report.Duplicates > 0 {
		b.t.Errorf("%d duplicates, want none", report.Duplicates)
	}
}

// Neither a database that does not answer nor one that never did keeps a relay from stopping.
func TestStopWithoutDatabase(t *testing.T) {
	t.Parallel()
	tests := map[string]func(b *bed, spec process.Spec) *process.Process{
		"silent while it runs": func(b *bed, spec process.Spec) *process.Process {
			proxy, spec := b.proxied(spec)
			relay := b.start(spec)
			b.awaitShares(1)
			proxy.Blackhole(true)
			b.write("k")
			return relay
		},
		"silent from the start": func(b *bed, spec process.Spec) *process.Process {
			proxy, spec := b.proxied(spec)
			proxy.Blackhole(true)
			relay := b.start(spec)
			b.await(5*time.Second, "the relay tries to connect", func() bool { return proxy.Conns() > 0 })
			return relay
		},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, pg15, oneBroker, "order.confirmed")
			b.migrate()
			relay := start(b, b.relay("POSTHASTE_RELAY_DRAIN_TIMEOUT="+drainTimeout.String()))
			relay.Terminate()
			ctx, cancel := context.WithTimeout(b.ctx, drainTimeout+time.Second)
			defer cancel()
			status, err := relay.Wait(ctx)
			if err != nil || status != 0 {
				t.Errorf("status %d, %v; want 0 within the drain timeout, since nothing was in flight", status, err)
			}
		})
	}
}
