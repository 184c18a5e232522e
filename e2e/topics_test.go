package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/check"
)

// A topic that is deleted and made again, with another number of partitions, is found again without a restart, however
// long it was away. Another topic does not suffer.
func TestTopicMadeAnewIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker, "order.confirmed", "order.cancelled")
	b.migrate()
	relay := b.start(b.relay())
	stop := b.writeSteadily()
	admin := b.admin()
	topic := b.topics[0]
	var before map[string]bool // what was published before the last deletion
	for i, away := range []time.Duration{0, 3 * time.Second, span(6*time.Second, time.Minute)} {
		b.await(30*time.Second, "events arrive", func() bool { return b.recordsOf(topic) > 20 })
		before = b.published(topic)
		if _, err := admin.DeleteTopics(b.ctx, topic); err != nil {
			t.Fatal(err)
		}
		b.letPass(away)
		if _, err := admin.CreateTopic(b.ctx, int32(3+i), -1, nil, topic); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		b.await(30*time.Second, "events arrive in the new topic", func() bool { return b.recordsOf(topic) > 0 })
		t.Logf("away for %s, the first event came %s later", away, time.Since(back).Round(time.Millisecond))
	}
	stop()
	b.drain(15 * time.Second)
	b.stop(relay)

	last := map[string]string{}
	for _, r := range b.readTopics() {
		id := fmt.Sprintf("%012s", r.Header("outbox_id"))
		switch {
		case r.Topic != topic:
		case before[r.Header("event_id")]:
			t.Errorf("event %s had been published in the topic before, and came again", id)
		case id < last[string(r.Key)]:
			t.Errorf("event %s of key %q came after %s", id, r.Key, last[string(r.Key)])
		default:
			last[string(r.Key)] = id
		}
	}
	other := func(e check.Event) bool { return e.Topic != b.topics[1] }
	report := check.Judge(check.History{
		Table:   slices.DeleteFunc(b.readTable(), other),
		Records: slices.DeleteFunc(b.readTopics(), func(r check.Record) bool { return r.Topic != b.topics[1] }),
	})
	if err := report.Err(); err != nil {
		t.Errorf("the other topic: %v", err)
	}
	if report.Duplicates > 0 {
		t.Errorf("the other topic: %d duplicates, want none", report.Duplicates)
	}
}

// writeSteadily writes to all topics of the bed until it is told to stop.
func (b *bed) writeSteadily() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			_, err := b.db.Exec(b.ctx, `
				insert into outbox_event
					(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
				select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', topic, 'key-' || $2::int % 20
				from unnest($1::text[]) topic`, b.topics, n)
			if err != nil {
				b.t.Error(err)
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); writer.Wait() })
	b.t.Cleanup(stop)
	return stop
}

// recordsOf tells how many records a topic has had, none while the broker does not know it yet.
func (b *bed) recordsOf(topic string) int64 {
	b.t.Helper()
	ends, err := b.admin().ListEndOffsets(b.ctx, topic)
	if err != nil && !kerr.IsRetriable(err) {
		b.t.Fatal(err)
	}
	var n int64
	for _, partition := range ends[topic] {
		n += partition.Offset // -1 where there is none yet
	}
	return n
}

// published returns the ids of a topic's events that are.
func (b *bed) published(topic string) map[string]bool {
	b.t.Helper()
	ids := map[string]bool{}
	for _, e := range b.readTable() {
		if e.Topic == topic && e.Published {
			ids[e.EventID] = true
		}
	}
	return ids
}

// A record with its event's own time would be acknowledged and deleted where that is older than the topic's retention,
// and refused where it lies in the future. A record with that time is sent beside the relay, to see it deleted.
func TestOldEventsAreNotDeletedByRetention(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, ownBroker)
	b.migrate()
	for _, name := range []string{"expires", "no-future", "control"} {
		b.topics = append(b.topics, b.unique+"."+name)
	}
	expires := map[string]string{"retention.ms": "3600000", "segment.ms": "10000"}
	b.createTopics(1, expires, b.topics[0], b.topics[2])
	b.createTopics(1, map[string]string{"message.timestamp.after.max.ms": "60000"}, b.topics[1])
	b.exec(`
		insert into outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
		select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', topic, 'k', created
		from unnest($1::text[]) topic, unnest(array[now() - interval '30 days', '2099-01-01']) created`, b.topics[:2])
	started := time.Now()
	b.sendOld(b.topics[2])
	relay := b.start(b.relay())
	b.drain(15 * time.Second)
	b.await(time.Minute, "the control is deleted", func() bool {
		starts, err := b.admin().ListStartOffsets(b.ctx, b.topics[2])
		b.ok(err)
		first, _ := starts.Lookup(b.topics[2], 0)
		return first.Offset > 0
	})
	b.letPass(span(0, time.Minute))
	b.stop(relay)
	report := b.judge(check.History{Start: started})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Records != 4 {
		t.Errorf("%d records, want 4", report.Records)
	}
}

// sendOld sends a record that is a month old.
func (b *bed) sendOld(topic string) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.addrs...))
	b.ok(err)
	defer client.Close()
	old := &kgo.Record{Topic: topic, Value: []byte("{}"), Timestamp: time.Now().AddDate(0, -1, 0)}
	b.ok(client.ProduceSync(b.ctx, old).FirstErr())
}

// As many refused events in front as several reads take, each of a key of its own, stop nothing behind them.
func TestRefusedEventsInFrontStopNothing(t *testing.T) {
	t.Parallel()
	batch := int(span(100, 2000))
	b := newBed(t, pg15, oneBroker)
	b.migrate()
	b.topics = []string{b.unique + ".order.confirmed"}
	b.createTopics(partitions, map[string]string{"max.message.bytes": "2000"}, b.topics...)
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', jsonb_build_object('pad', repeat('x', 3000)), $1,
			'large-' || n
		from generate_series(1, $2::int) n`, b.topics[0], 3*batch)
	arrivals := b.follow()
	healthy := 0
	for range 2 { // the second time with a relay that has to find out anew
		healthy += batch / 2
		b.writeMany(batch/2, 100)
		relay := b.start(b.relay(fmt.Sprintf("POSTHASTE_RELAY_BATCH_MAX=%d", batch)))
		began := time.Now()
		b.expect(arrivals, healthy, 30*time.Second)
		t.Logf("%d events came within %s, past %d that are refused", batch/2,
			time.Since(began).Round(time.Millisecond), 3*batch)
		b.await(10*time.Second, "what came is marked", func() bool {
			open, err := check.Unpublished(b.ctx, b.db, table)
			b.ok(err)
			return len(open) == 3*batch
		})
		b.stop(relay)
	}
}
