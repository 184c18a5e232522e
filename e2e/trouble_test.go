package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// The worst moment to stop: Kafka has acknowledged a chunk, and the relay has not marked it. Its successor sends the
// chunk again, and no more than that, in order; what the zombie does when it wakes up does no harm.
func TestGoneBetweenAcknowledgementAndSettle(t *testing.T) {
	t.Parallel()
	harms := map[string]func(*process.Process){"kill -9": (*process.Process).Kill, "SIGSTOP": (*process.Process).Freeze}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, pg15, ownBroker, "order.confirmed")
			b.migrate()
			database, spec := b.proxied(b.relay())
			relay := b.start(spec)
			arrivals := b.follow()
			b.writeMany(64, 64)
			b.expect(arrivals, 64, 20*time.Second)
			b.drain(10 * time.Second)

			broker := ownKafka(t).broker
			b.ok(broker.Pause())
			const events = 2 * batchMax // in flight, or read
			b.writeMany(events, 10)
			b.letPass(700 * time.Millisecond) // longer than the interval of the relay's reads
			database.Blackhole(true)
			b.ok(broker.Resume())
			b.arrive(arrivals, 64+1, 10*time.Second) // of the chunk in flight; its settle does not come through
			harm(relay)

			next := b.start(b.relay())
			b.arrive(arrivals, 64+events, 30*time.Second)
			b.drain(10 * time.Second)
			database.Blackhole(false) // the late settle reaches the server
			relay.Thaw()
			b.writeMany(64, 10)
			b.arrive(arrivals, 128+events, 20*time.Second)
			if name == "SIGSTOP" {
				b.stop(relay)
			}
			b.stop(next)
			report := b.judge(check.History{})
			t.Log(report)
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Duplicates == 0 || report.Duplicates > 2*batchMax {
				t.Errorf("%d duplicates, want those of the strike, which are at most %d", report.Duplicates, 2*batchMax)
			}
		})
	}
}

// arrive waits for so many events, however many copies there are.
func (b *bed) arrive(f *check.Follower, events int, within time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	_, err := f.Wait(ctx, func(all []check.Arrival) bool { return len(distinct(all)) >= events })
	if err != nil {
		b.t.Fatalf("want %d events within %s: %v", events, within, err)
	}
}

// A relay that is frozen for a minute, long after it has been evicted, sends at most what was in flight when it wakes.
func TestFrozenForAMinute(t *testing.T) {
	onlyLong(t)
	m := newMove(t)
	m.migrate()
	relays := m.start(2, m.relay())
	m.awaitShares(2)
	m.flow()
	relays[0].Freeze()
	m.letPass(time.Minute)
	relays[0].Thaw()
	m.awaitShares(2)
	m.flow()
	m.finishWith(relays, nil, 2*batchMax)
}

// Relays that get a tenth of a processor in bursts, for half a minute, lose and reorder nothing; one that was silent
// for longer than the lease may repeat what it had in flight.
func TestStarvedOfCPU(t *testing.T) {
	m := newMove(t)
	m.migrate()
	relays := m.start(2, m.relay())
	m.awaitShares(2)
	m.flow()
	m.ok(process.Starve(span(8*time.Second, 30*time.Second), relays[0].Pid(), relays[1].Pid()))
	m.awaitShares(2)
	m.flow()
	m.finishWith(relays, nil, 2*2*batchMax)
}

// Relays of the previous version and of this one share an outbox while the ones replace the others, and nothing is
// lost, repeated or reordered. Until there has been a release, the previous version is this one, built apart;
// POSTHASTE_E2E_PREVIOUS names another binary.
func TestRollingUpgrade(t *testing.T) {
	m := newMove(t)
	m.migrate()
	spec := m.relay()
	spec.Binary = previous(t)
	relays := m.start(3, spec)
	m.awaitShares(3)
	m.flow()
	for i := range relays {
		newer := m.start(1, m.relay())
		m.stop(relays[i])
		relays[i] = newer[0]
		m.awaitShares(3)
		m.flow()
	}
	m.finish(relays, nil)
}

func previous(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("POSTHASTE_E2E_PREVIOUS"); given != "" {
		return given
	}
	path := filepath.Join(t.TempDir(), "posthaste-previous")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "posthaste.dev/posthaste/cmd/posthaste").
		CombinedOutput()
	if err != nil {
		t.Fatalf("build the previous version: %v\n%s", err, out)
	}
	return path
}

// The number of lanes changes under load, up and down, twice.
func TestOtherLanesUnderLoad(t *testing.T) {
	m := newMove(t)
	m.migrate("--lanes", "8")
	relays := m.start(2, m.relay())
	m.awaitShares(2)
	m.flow()
	for _, lanes := range []int{64, 2, 32} {
		m.command("lanes", "set", fmt.Sprint(lanes))
		m.await(20*time.Second, fmt.Sprintf("%d lanes, all owned", lanes), func() bool {
			var n int
			m.ok(m.db.QueryRow(m.ctx, `select count(owner) from posthaste.lane`).Scan(&n))
			return n == lanes
		})
		m.flow()
	}
	m.finish(relays, nil)
}
