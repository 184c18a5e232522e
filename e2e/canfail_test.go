package e2e_test

import (
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/internal/testenv"
)

// bursty is a load on few keys: what relays do to the order of a key shows.
func bursty(b *bed, seed uint64) load.Population {
	return load.Population{
		Prefix: "locked-", Keys: 30, Locked: true, Workers: 24, Rate: 250, Topics: b.topics, Seed: seed,
	}
}

// A relay with a mistake is found out, and the same relay without one is not: it is the mistake that is found.
func TestSuiteFindsMistakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		relays int
		harms  []harm
		shows  []check.Kind // by at least one event each
	}{
		"none":       {2, []harm{kill, terminate, stallKill}, nil},
		"last-id":    {1, nil, []check.Kind{check.Missing, check.Unmarked}},
		"mark-first": {1, []harm{stall}, []check.Kind{check.Early}},
		"reprint":    {1, nil, []check.Kind{check.Altered}},
	}
	for mistake, test := range tests {
		t.Run(mistake, func(t *testing.T) {
			b := newBed(t, testenv.DatabaseURL, ownBroker, "order.confirmed")
			seed := seedOf(t)
			out := trial{
				relay:    b.wrong(mistake),
				relays:   test.relays,
				writers:  []load.Population{bursty(b, seed)},
				load:     6 * time.Second,
				strikes:  schedule(seed, 6*time.Second, test.harms),
				patience: 3 * time.Second,
			}.run(t, b)
			t.Log(out)
			for _, k := range test.shows {
				if out.Count(k) == 0 {
					t.Errorf("%s: 0, want it found", k)
				}
			}
			if len(test.shows) == 0 {
				if err := out.Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Two relays that take rows with SKIP LOCKED reorder the events of a key, as they say at start. It shows when one of
// them waits for the broker with earlier events of a key in hands while the other sends later ones. Nothing is lost.
func TestSuiteFindsReorderingOfSkipLocked(t *testing.T) {
	t.Parallel()
	b := newBed(t, testenv.DatabaseURL, ownBroker, "order.confirmed")
	b.migrate()
	writers := bursty(b, seedOf(t))
	writers.Keys, writers.MaxHold = 10, 5*time.Millisecond
	tr := trial{
		relay:   b.relay("POSTHASTE_RELAY_CLAIM=skip-locked"),
		relays:  2,
		writers: []load.Population{writers},
		load:    10 * time.Second,
	}
	// Which of the two the broker hears first after a stall is left to chance, so there are many.
	for at := time.Second; at < tr.load; at += 300 * time.Millisecond {
		tr.strikes = append(tr.strikes, strike{at: at, harm: stall, length: 150 * time.Millisecond})
	}
	out := tr.run(t, b)
	t.Log(out)
	if out.Count(check.Reordered) == 0 {
		t.Error("no event is reordered, want some")
	}
	if n := out.Count(check.Missing) + out.Count(check.Phantom) + out.Duplicates; n > 0 {
		t.Errorf("skip-locked loses, invents or repeats events: %s", out)
	}
}
