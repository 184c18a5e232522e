package relay

import (
	"os"
	"testing"
	"time"
)

// Mutations that the simulation has no room for.
//
// A late park needs both of its checks. Without that of the lane, a member that was given up parks an event that the
// new owner has read already: it is sent although it is parked, and its later events wait for nothing. Without that of
// the row, an event stays parked that is published, when its lane went to another member and came back while the park
// was under way: its key waits until the search for ghosts has found it. Neither loses or reorders anything.
const (
	settleByIDAlone mutation = 1000 + iota
	parkWithoutLane
	parkThoughPublished
	lateParkByZombie // without both
)

// exploreAll explores worlds at the same time, or one after the other where they need much memory.
func exploreAll(t *testing.T, configs []*modelConfig, atMost int, parallel bool) {
	for _, cfg := range configs {
		t.Run(cfg.name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			begun := time.Now()
			x, bad := explore(cfg, sound, atMost)
			if bad != nil {
				t.Fatal(bad)
			}
			t.Logf("%d states, %d transitions, %d steps deep, %d states on the way to rest, %.1f s", len(x.seen),
				x.transitions, x.depth, len(x.calm), time.Since(begun).Seconds())
			if len(x.nodes) > atMost {
				t.Errorf("more than %d states", atMost)
			}
		})
	}
}

var (
	oneClass   = classes{others: HoldKey}
	twoClasses = classes{rules: []TopicRule{{Match: "t1", OnRefused: HoldAggregate}}, others: HoldKey}
)

// smallWorld has three events of two keys, whose lanes are both of the first member.
func smallWorld(name string, left budget, change ...func(*modelConfig)) *modelConfig {
	c := &modelConfig{name: name, keys: []string{"k0", "k0", "k3"}, classes: oneClass, dues: []classSet{1},
		owners: [4]int8{0, -1, -1, 0}, pause: Scope{Kind: ScopeTopic, Topic: "t0"}, left: left}
	if left[faultKinds] == 0 {
		for _, n := range left {
			c.left[faultKinds] += n
		}
	}
	for _, do := range change {
		do(c)
	}
	return c
}

// The changes that a small world may have.
func late(c *modelConfig)   { c.late = true }
func strict(c *modelConfig) { c.strict = true }

func written(n int) func(*modelConfig) { return func(c *modelConfig) { c.written = n } }

// freeLane leaves the lane of the second key free.
func freeLane(c *modelConfig) { c.owners[3] = -1 }

// samePartition gives the second key the partition of the first.
func samePartition(c *modelConfig) {
	c.keys = []string{"k0", "k0", "k6"}
	c.owners = [4]int8{0, -1, 0, -1}
}

// oneEvent is all that there is.
func oneEvent(c *modelConfig) { c.keys, c.written, c.owners[3] = []string{"k0"}, 1, -1 }

func twoTopics(c *modelConfig) {
	c.keys, c.classes, c.dues = []string{"k0", "k0", "k1"}, twoClasses, []classSet{1, 2, 3}
	c.owners = [4]int8{0, 0, -1, -1}
}

// TestModelNotices takes each protection out and expects the exploration to see it.
func TestModelNotices(t *testing.T) {
	for _, v := range []struct {
		name   string
		broken mutation
		cfg    *modelConfig
	}{
		{"read outlives a lane change", readOutlivesChange, smallWorld("", budget{move: 1}, written(2))},
		{"floor kept over a gained lane", floorKeptOverGainedLane, smallWorld("", budget{}, freeLane, written(3))},
		{"floor over a memory hold", floorKeptOverLiftedHold, smallWorld("", budget{unusable: 1})},
		{"floor by last id", floorByLastID, smallWorld("", budget{})},
		{"settle before acknowledgement", settleBeforeAck, smallWorld("", budget{})},
		{"settle by id alone", settleByIDAlone, smallWorld("", budget{truncation: 1})},
		{"failed rows behind a prefetch", failedRowsBehindPrefetch, smallWorld("", budget{outages: 1})},
		{"hold leaves carried rows", holdLeavesCarriedRows, smallWorld("", budget{unusable: 1})},
		{"refusal leaves carried rows", holdLeavesCarriedRows, smallWorld("", budget{refusing: 1})},
		{"late park by a zombie", lateParkByZombie,
			smallWorld("", budget{refusing: 1, eviction: 1}, late, written(3))},
		{"late park without the lane", parkWithoutLane,
			smallWorld("", budget{refusing: 1, eviction: 1}, late, written(3))},
		{"park of a published row", parkThoughPublished,
			smallWorld("", budget{refusing: 1, move: 2}, late, oneEvent)},
		{"release races a new event", releaseWithoutCatchUp, smallWorld("", budget{refusing: 1, word: 1}, written(1))},
		{"horizon without writers", horizonWithoutWriters, smallWorld("", budget{})},
		{"parked not doubted", parkedNotDoubted, smallWorld("", budget{refusing: 1, eviction: 1}, written(3))},
		{"barred partition flows", barredPartitionFlows, smallWorld("", budget{silences: 1})},
		{"pause leaves carried rows", pauseLeavesCarriedRows, smallWorld("", budget{pausing: 1}, written(1))},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			x, bad := explore(v.cfg, v.broken, 200_000)
			t.Logf("%d states, %.1f s: %v", len(x.seen), time.Since(begun).Seconds(), bad)
			if bad == nil {
				t.Errorf("nothing noticed in %d states, %d steps deep", len(x.seen), x.depth)
			}
		})
	}
}

// anyFaults allows each kind of fault once, and so many of them in all.
func anyFaults(n int8) (b budget) {
	for kind := range faultKinds {
		b[kind] = 1
	}
	b[faultKinds] = n
	return b
}

func TestModelKeepsItsPromises(t *testing.T) {
	exploreAll(t, []*modelConfig{
		smallWorld("writers", budget{rollback: 1}),
		smallWorld("outages", budget{outages: 2}, written(1)),
		smallWorld("sessions", budget{sessionEnd: 2}, written(1)),
		smallWorld("refusal", budget{refusing: 1, word: 1}, written(2)),
		smallWorld("refusal and outage", budget{refusing: 1, outages: 1}, written(2), samePartition),
		smallWorld("two topics, one unusable", budget{unusable: 1}, written(2), twoTopics),
		smallWorld("two topics, refusal", budget{refusing: 1}, written(2), twoTopics),
		smallWorld("silence", budget{silences: 1, outages: 1}, written(2), samePartition),
		smallWorld("pause", budget{pausing: 1}, written(2)),
		smallWorld("truncation", budget{truncation: 1}, written(2)),
		smallWorld("hand-over", budget{move: 1}, written(2)),
		smallWorld("eviction", budget{eviction: 1}, written(3)),
		smallWorld("zombie", budget{eviction: 1}, written(3), late),
		smallWorld("hand-back", budget{eviction: 1, move: 1, refusing: 1, outages: 1}, oneEvent),
		smallWorld("late park", budget{refusing: 1, move: 2}, oneEvent, late),
		smallWorld("strict", budget{rollback: 1}, written(1), strict),
	}, 50_000, true)
}

// TestModelOfMore takes minutes, and up to 3 GB of memory.
func TestModelOfMore(t *testing.T) {
	if os.Getenv("POSTHASTE_E2E_LONG") == "" {
		t.Skip("takes minutes; set POSTHASTE_E2E_LONG")
	}
	exploreAll(t, []*modelConfig{
		smallWorld("zombie and outage", budget{eviction: 1, outages: 1}, written(3), late),
		smallWorld("zombie and refusal", budget{eviction: 1, refusing: 1}, written(3)),
		smallWorld("refusals", budget{refusing: 2, word: 2}, written(3)),
		smallWorld("refusal with a new event", budget{refusing: 1, word: 1}, written(1)),
		smallWorld("hand-overs", budget{move: 2}, written(2)),
		smallWorld("hand-over of a topic that waits", budget{move: 1, unusable: 1}, written(2)),
		smallWorld("hand-over and pause", budget{move: 1, pausing: 1}, written(3)),
		smallWorld("truncation", budget{truncation: 1}, written(1)),
		smallWorld("eviction with a new event", budget{eviction: 1}, written(2)),
		smallWorld("two topics", budget{unusable: 1, refusing: 1}, written(2), twoTopics),
		smallWorld("two faults of any kind, one event", anyFaults(2), oneEvent),
		smallWorld("two faults of any kind", anyFaults(2), written(3)),
		smallWorld("zombie, late refusal", budget{eviction: 1, refusing: 1}, written(3), late),
	}, 1_500_000, false)
}
