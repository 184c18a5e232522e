package e2e_test

import (
	"context"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// drainTimeout of the relays in this file.
const drainTimeout = 3 * time.Second

// A relay that is asked to stop while answers of the broker are two seconds away waits for them: what the broker has
// taken is marked, so nothing is sent twice. The stops at random moments under load are part of the chaos tests.
func TestStopWaitsForTheChunkInFlight(t *testing.T) {
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	relay, over := b.stopDuring(2*time.Second, "POSTHASTE_RELAY_DRAIN_TIMEOUT=20s")
	b.stop(relay)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	next := b.start(b.relay())
	b.awaitShares(1)
	b.drain(15 * time.Second)
	b.stop(next)
	report := b.judge(check.History{})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Duplicates > 0 {
		t.Errorf("%d duplicates, want none", report.Duplicates)
	}
}

// A second signal means now, and the exit status says that the stop was not clean.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	relay, over := b.stopDuring(5*time.Second, "POSTHASTE_RELAY_DRAIN_TIMEOUT=20s")
	time.Sleep(time.Second) // the system makes one of two signals that come close together
	relay.Terminate()
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	if status, err := relay.Wait(ctx); err != nil || status == 0 {
		t.Errorf("after the second signal: status %d, %v; want another than 0 within a second", status, err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// stopDuring starts a relay, silences the broker for a while, gives the relay a chunk to send and asks it to stop. It
// returns when the signal has been sent; the channel tells when the broker answers again.
func (b *bed) stopDuring(silence time.Duration, env ...string) (*process.Process, <-chan error) {
	b.t.Helper()
	if len(b.pids) == 0 {
		b.t.Skip("needs the process ids of the brokers")
	}
	b.migrate()
	relay := b.start(b.relay(env...))
	arrivals := b.follow()
	b.write("warm")
	b.expect(arrivals, 1, 15*time.Second)
	over := make(chan error, 1)
	go func() { over <- process.Stall(silence, b.pids...) }()
	b.await(time.Second, "the broker is stopped", func() bool { return process.Stopped(b.pids[0]) })
	for range 10 {
		b.write("k")
	}
	time.Sleep(700 * time.Millisecond) // longer than the interval of its reads: the chunk is in flight
	relay.Terminate()
	return relay, over
}

// Neither a database that does not answer nor one that never did keeps a relay from stopping.
func TestStopWithoutDatabase(t *testing.T) {
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
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("exit status %d", status)
		})
	}
}
