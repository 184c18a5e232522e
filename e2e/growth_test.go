package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// A topic is given more partitions under load. Nothing is lost or sent twice, and in each partition a key's events stay
// in order; but half of the keys move, and no consumer can tell whether it has read all of a key's old place when it
// comes to the new one. This measures it, and pins that a key moves once.
func TestPartitionsAddedUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker, "grows")
	b.migrate()
	relay := b.start(b.relay())
	stop := b.writeSteadily()
	b.await(30*time.Second, "events arrive", func() bool { return b.recordsOf(b.topics[0]) > 40 })
	b.addPartitions()
	added := time.Now()
	came := func(n int64) func() bool { return func() bool { return b.recordsIn(partitions, 2*partitions) >= n } }
	b.await(30*time.Second, "events come into the new partitions", came(1))
	t.Logf("the relay saw the new partitions after %s", time.Since(added).Round(time.Second))
	b.await(30*time.Second, "more follow", came(40))
	stop()
	b.drain(15 * time.Second)
	b.stop(relay)

	report := b.judge(check.History{})
	for _, kind := range check.Kinds() { // the new partitions are judged after the old: a key that moves back is found
		if kind != check.Split && report.Count(kind) > 0 {
			t.Errorf("%s: %v", report, report.Err())
		}
	}
	if report.Duplicates > 0 {
		t.Errorf("%d duplicates, want none", report.Duplicates)
	}
	// Of keys: the time of the last event in the old partition, and how much later the next one is.
	old, moves := map[string]time.Time{}, map[string]time.Duration{}
	records := b.readTopics()
	slices.SortFunc(records, func(a, b check.Record) int { return a.Time.Compare(b.Time) })
	for _, r := range records {
		key := string(r.Key)
		if r.Partition < partitions {
			old[key] = r.Time
		} else if _, seen := moves[key]; !seen {
			moves[key] = r.Time.Sub(old[key])
		}
	}
	if len(moves) == 0 || len(moves) == len(old) {
		t.Errorf("%d of %d keys have moved, want some", len(moves), len(old))
	}
	var gaps []time.Duration
	for _, gap := range moves {
		gaps = append(gaps, gap)
	}
	t.Logf("%d of %d keys moved; a consumer that is further behind in an old partition than %s to %s has the first "+
		"events of the new ones too early", len(moves), len(old), slices.Min(gaps).Round(time.Millisecond),
		slices.Max(gaps).Round(time.Millisecond))
}

// The way without that: the topic is paused, consumers read to its end, it is given partitions, and resumed. Whoever
// does so has every key in order, since no event comes into an old place of a key that has a new one.
func TestPartitionsAddedDuringAPause(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker, "grows")
	b.migrate()
	topic := b.topics[0]
	relays := []*process.Process{b.start(b.relay()), b.start(b.relay())}
	b.awaitShares(len(relays))
	stop := b.writeSteadily()
	b.await(30*time.Second, "events arrive", func() bool { return b.recordsOf(topic) > 40 })

	b.command("pause", "--topic", topic, "--reason", "partitions are added")
	b.await(30*time.Second, "what was with Kafka has arrived", func() bool {
		return b.recordsOf(topic) == int64(len(b.published(topic)))
	})
	paused := b.ends(topic) // consumers have read so far
	b.addPartitions()
	b.command("resume", "--topic", topic, "--reason", "partitions were added")
	b.await(30*time.Second, "events come into the new partitions", func() bool {
		return b.recordsIn(partitions, 2*partitions) > 40
	})
	stop()
	b.drain(15 * time.Second)
	for _, relay := range relays {
		b.stop(relay)
	}

	var before, after check.History
	earlier := map[string]bool{}
	for _, r := range b.readTopics() {
		if r.Offset < paused[r.Partition] {
			before.Records = append(before.Records, r)
			earlier[r.Header("event_id")] = true
		} else {
			after.Records = append(after.Records, r)
		}
	}
	for _, e := range b.readTable() {
		if earlier[e.EventID] {
			before.Table = append(before.Table, e)
		} else {
			after.Table = append(after.Table, e)
		}
	}
	lastBefore := map[string]int64{} // ids by key
	for _, e := range before.Table {
		lastBefore[e.Key] = max(lastBefore[e.Key], e.ID)
	}
	for _, e := range after.Table {
		if e.ID < lastBefore[e.Key] {
			t.Errorf("%s came after the pause, a later one of its key before", e)
		}
	}
	for when, history := range map[string]check.History{"before the pause": before, "after it": after} {
		report := check.Judge(history) // a key in two partitions is a fault again
		if err := report.Err(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if report.Duplicates > 0 {
			t.Errorf("%s: %d duplicates, want none", when, report.Duplicates)
		}
	}
}

// addPartitions doubles those of the bed's first topic, and waits until the broker says so.
func (b *bed) addPartitions() {
	b.t.Helper()
	topic := b.topics[0]
	_, err := b.admin().UpdatePartitions(b.ctx, 2*partitions, topic)
	b.ok(err)
	b.await(10*time.Second, "the broker knows the new partitions", func() bool {
		return len(b.ends(topic)) == 2*partitions
	})
}

// ends returns where the partitions of a topic end, as a client says that knows nothing from before.
func (b *bed) ends(topic string) map[int32]int64 {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.addrs...))
	b.ok(err)
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(b.ctx, topic)
	b.ok(err)
	ends := map[int32]int64{}
	for n, o := range listed[topic] {
		if o.Err == nil {
			ends[n] = o.Offset
		}
	}
	return ends
}

// recordsIn tells how many records the bed's first topic has in the partitions from one up to another.
func (b *bed) recordsIn(from, to int32) (n int64) {
	b.t.Helper()
	for partition, end := range b.ends(b.topics[0]) {
		if from <= partition && partition < to {
			n += end
		}
	}
	return n
}
