package e2e_test

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/internal/testenv"
)

// chaos is one combination of what the suite varies.
type chaos struct {
	name     string
	database string // setting of the server
	relays   int
	keys     int
	harms    []harm
	env      []string
	headers  bool          // the table has the optional column
	rate     float64       // transactions a second, 3 events each on average; 200 if zero
	maxHold  time.Duration // of transactions; 2.5 seconds if zero
	load     time.Duration // loadTime if zero
}

var (
	pg13, pg15, pg18 = testenv.DatabaseURL13, testenv.DatabaseURL, testenv.DatabaseURL18
	everything       = []harm{kill, terminate, freeze, stall, stallKill, stallTerminate}
	orderStrict      = []string{"POSTHASTE_RELAY_ORDER=strict"}
	settleDelete     = []string{"POSTHASTE_RELAY_SETTLE=delete"}
)

// The combinations of a cluster run one after the other, since a stall of the brokers would disturb a neighbour; the
// two clusters at the same time.
var (
	chaosOneBroker = []chaos{
		{name: "one relay", database: pg18, relays: 1, keys: 10_000,
			harms: []harm{kill, terminate, stall, stallKill}, headers: true},
		{name: "two relays, strict", database: pg13, relays: 2, keys: 100, harms: everything, env: orderStrict},
		{name: "four relays, few keys", database: pg15, relays: 4, keys: 10, harms: everything, headers: true},
		{name: "rolling restarts only", database: pg18, relays: 4, keys: 100, harms: []harm{terminate, stallTerminate}},
	}
	chaosThreeBrokers = []chaos{
		{name: "two relays", database: pg15, relays: 2, keys: 100, harms: everything},
		{name: "four relays, many keys", database: pg18, relays: 4, keys: 10_000, harms: everything},
		{name: "two relays, delete", database: pg13, relays: 2, keys: 10, harms: everything, env: settleDelete,
			headers: true},
		// Members that judge one another at different moments must not share a lane; a slow database provokes it.
		{name: "three relays, slow database", database: pg15, relays: 3, keys: 100,
			harms: []harm{terminate, freeze, lag}, rate: 650, maxHold: 20 * time.Millisecond},
	}
)

func TestChaosOneBroker(t *testing.T) {
	t.Parallel()
	for _, c := range chaosOneBroker {
		t.Run(c.name, func(t *testing.T) { c.run(t, oneBroker) })
	}
}

func TestChaosThreeBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range chaosThreeBrokers {
		t.Run(c.name, func(t *testing.T) { c.run(t, threeBrokers) })
	}
}

// TestSoak is one long run with everything in it, for scripts/soak. Its strikes and its load come from the seed.
func TestSoak(t *testing.T) {
	given := os.Getenv("POSTHASTE_E2E_SOAK")
	if given == "" {
		t.Skip("takes as long as it is told to; see scripts/soak")
	}
	length, err := time.ParseDuration(given)
	if err != nil {
		t.Fatalf("read POSTHASTE_E2E_SOAK: %v", err)
	}
	chaos{database: pg18, relays: 3, keys: 100, headers: true, load: length,
		harms: append([]harm{cut, pauseTopic, refuse}, everything...)}.run(t, threeBrokers)
}

func (c chaos) run(t *testing.T, kafka cluster) {
	b := newBed(t, c.database, kafka, "order.confirmed", "order.cancelled")
	if c.headers {
		b.migrate("--headers")
	} else {
		b.migrate()
	}
	b.deletes = slices.Contains(c.env, settleDelete[0])
	harms := c.harms
	if len(b.kafka.pids) == 0 {
		t.Log("without the process ids of the brokers this run has no stalls")
		harms = slices.DeleteFunc(slices.Clone(harms), harm.stalls)
	}
	seed, length := seedOf(t), cmp.Or(c.load, loadTime(t))
	tr := trial{
		relay:   b.relay(c.env...),
		relays:  c.relays,
		slow:    slices.Contains(harms, lag),
		writers: c.writers(b, seed),
		load:    length,
		strikes: schedule(seed, length, harms),
	}
	if !slices.Contains(c.env, orderStrict[0]) {
		tr.ordered = func(e check.Event) bool { return !strings.HasPrefix(e.Key, "free-") }
	}
	out := tr.run(t, b)
	t.Logf("%s (%d allowed); %d rolled back; strikes %s", out, out.allowed, out.rolledBack, tally(tr.strikes))
	if err := out.Err(); err != nil {
		t.Error(err)
	}
	if out.Duplicates > out.allowed {
		t.Errorf("%d duplicates, want at most %d: two chunks for each kill and stall of a relay", out.Duplicates,
			out.allowed)
	}
}

// writers are three populations: one locks its aggregate's row, one writes by the library, which keeps the writers of a
// key apart by itself, and one does neither, so that its order is promised by the relay's strict mode alone.
func (c chaos) writers(b *bed, seed uint64) []load.Population {
	library, err := load.Library(table, c.headers, b.topics)
	if err != nil {
		b.t.Fatal(err)
	}
	population := func(prefix string, share float64, workers int) load.Population {
		seed++
		return load.Population{
			Prefix: prefix, Keys: c.keys, Workers: workers, Rate: cmp.Or(c.rate, 200) * share, MaxHold: c.maxHold,
			Topics: b.topics, Headers: c.headers, Seed: seed,
		}
	}
	locked, strict, free := population("locked-", 0.6, 24), population("strict-", 0.2, 10), population("free-", 0.2, 8)
	locked.Locked, strict.Insert = true, library
	return []load.Population{locked, strict, free}
}
