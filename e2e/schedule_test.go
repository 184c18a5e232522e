package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// harm is what is done to a relay or a broker.
type harm string

const (
	kill           harm = "kill"            // kill -9 of a relay; another starts
	terminate      harm = "terminate"       // SIGTERM; another starts at once
	freeze         harm = "freeze"          // SIGSTOP of a relay for a while, then SIGCONT
	lag            harm = "lag"             // a relay's database connections are slow for a while
	stall          harm = "stall"           // SIGSTOP of the brokers for less than a second
	stallKill      harm = "stall+kill"      // a relay is killed during a stall, so with a chunk in flight
	stallTerminate harm = "stall+terminate" // a relay is asked to stop during a stall
	cut            harm = "cut"             // a connection of a relay to its database ends
	pauseTopic     harm = "pause"           // an operator pauses a topic for a while
	refuse         harm = "refuse"          // a topic takes no record for a while; then what was parked is retried
)

// stalls tells whether the harm stops the brokers.
func (h harm) stalls() bool { return h == stall || h == stallKill || h == stallTerminate }

// strike is one act of harm.
type strike struct {
	at     time.Duration // since the load began
	harm   harm
	target int           // which relay, counted among those that are not frozen, modulo their number
	length time.Duration // of a stall, a freeze, a lag
}

// How long relays are frozen or slow.
const (
	frozen = 10 * time.Second
	slow   = 3 * time.Second
	lagged = 2 * time.Second // added to everything that passes
)

// schedule plans strikes over the time of the load, all from the seed. Each kind of harm comes once in random order,
// then they come at random. Nothing that takes long begins late.
func schedule(seed uint64, load time.Duration, harms []harm) []strike {
	rng := rand.New(rand.NewPCG(seed, 0))
	var order []harm
	for _, i := range rng.Perm(len(harms)) {
		order = append(order, harms[i])
	}
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	pause := func() time.Duration { return between(300*time.Millisecond, 1800*time.Millisecond) }
	var strikes []strike
	lastLong := -frozen
	for at := 2 * time.Second; at < load-time.Second && len(harms) > 0; at += pause() {
		var h harm
		if len(order) > 0 {
			h, order = order[0], order[1:]
		} else {
			h = harms[rng.IntN(len(harms))]
			// One freeze at a time leaves the others something to take over.
			if h == freeze && (at-lastLong < 2*frozen || at > load-frozen) {
				continue
			}
		}
		s := strike{at: at, harm: h, target: rng.IntN(64)}
		switch {
		case h.stalls():
			s.length = between(100*time.Millisecond, 800*time.Millisecond)
		case h == freeze:
			s.length, lastLong = frozen, at
		case h == lag:
			s.length = slow
		case h == pauseTopic, h == refuse:
			s.length = between(500*time.Millisecond, 4*time.Second)
		}
		strikes = append(strikes, s)
	}
	return strikes
}

func TestScheduleComesFromTheSeed(t *testing.T) {
	harms := []harm{kill, freeze, stall, stallTerminate}
	of := func(seed uint64) []strike { return schedule(seed, time.Minute, harms) }
	one, again, other := of(1), of(1), of(2)
	if !reflect.DeepEqual(one, again) {
		t.Error("the same seed gives two schedules")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds give the same schedule")
	}
	seen := map[harm]bool{}
	for _, s := range one[:len(harms)] {
		seen[s.harm] = true
	}
	if len(seen) != len(harms) {
		t.Errorf("the first strikes are %v, want each of %v", one[:len(harms)], harms)
	}
}

// tally counts strikes by kind, for the log.
func tally(strikes []strike) string {
	counts := map[harm]int{}
	for _, s := range strikes {
		counts[s.harm]++
	}
	return fmt.Sprint(counts)[len("map"):]
}
