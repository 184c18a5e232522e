package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/testbed/servers"
)

// Three brokers of the test's own, which it kills and restarts, with a relay that must lose nothing, reorder nothing
// and send nothing twice. They start once, so what is done to them is done one after the other.
func TestThreeBrokersInTrouble(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	database := testenv.Require(t, pg18)
	kafka, err := servers.StartKafka(t.Context(), servers.KafkaConfig{Brokers: 3, Brief: true,
		Properties: map[string]string{
			// A broker that is killed counts as alive for so long. Its followers' replicas count as in sync, so what
			// they share is not acknowledged by anybody.
			"broker.session.timeout.ms":    "3000",
			"broker.heartbeat.interval.ms": "500",
		}})
	if err != nil {
		t.Fatalf("this test does harm to brokers, so it starts its own: %v", err)
	}
	t.Cleanup(func() {
		if err := kafka.Remove(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name string
		harm func(*bed, *servers.Kafka)
		long bool // starts brokers again more often than CI has time for
	}{
		{"one is gone", oneIsGone, false},
		{"two are gone", twoAreGone, true},
		{"rolling restart", rollingRestart, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && span(0, 1) == 0 {
				t.Skip("takes minutes; set POSTHASTE_E2E_LONG")
			}
			b := makeBed(t, database, brokers{addrs: kafka.Addrs(), relays: kafka.Addrs()})
			b.migrate()
			b.createReplicated("well", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2}, []int32{1, 3, 2})
			if c.name == "one is gone" {
				// The third broker's replicas are the only one of a partition, and one of the two that must be in sync.
				b.createReplicated("single", []int32{1}, []int32{2}, []int32{3})
				b.createReplicated("pair", []int32{1, 3}, []int32{3, 2}, []int32{2, 3}, []int32{3, 1}, []int32{1, 3},
					[]int32{2, 3})
			}
			relay := b.start(b.relay("OUTBOX_RELAY_BATCH_SIZE=50", "POSTHASTE_RELAY_BATCH_MAX=2000")) // the defaults
			stop := b.writeSteadily()
			b.await(30*time.Second, "events arrive in all topics", func() bool {
				return !slices.ContainsFunc(b.topics, func(topic string) bool { return b.recordsOf(topic) < 20 })
			})
			c.harm(b, kafka)
			b.ok(kafka.WaitReady(b.ctx))
			stop()
			b.drain(time.Minute)
			b.stop(relay)
			report := b.judge(check.History{})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Duplicates > 0 {
				t.Errorf("%d duplicates, want none", report.Duplicates)
			}
		})
	}
}

// A partition without a leader and a topic below its least number of in-sync replicas wait; all others flow, as fast as
// ever.
func oneIsGone(b *bed, kafka *servers.Kafka) {
	well, single, pair := b.topics[0], b.topics[1], b.topics[2]
	drains := int(span(1, 5))
	b.rates(well, drains) // the first are slower, on brokers that have just started
	before := b.rates(well, drains)
	b.ok(kafka.Brokers[2].Kill())
	b.await(30*time.Second, "the events of a topic without sick partitions flow", func() bool {
		open := b.backlogs()
		return open[well] < 20 && open[pair] > 3*20 && open[single] > 20
	})
	var beside []float64
	var longest time.Duration
	for over := time.Now().Add(span(0, 5*time.Minute)); len(beside) == 0 || time.Now().Before(over); {
		beside = append(beside, b.rates(well, 1)...)
		longest = max(longest, b.standstill(well, span(2*time.Second, 30*time.Second)))
	}
	open := b.backlogs()
	b.t.Logf("beside %d events of sick partitions and %d of their topics, the others stood for %s at most", open[pair],
		open[single], longest.Round(time.Millisecond))
	if longest > 3*time.Second {
		b.t.Errorf("the events of a topic without sick partitions stood for %s", longest)
	}
	b.ok(kafka.Brokers[2].Restart(b.ctx))
	b.ok(kafka.WaitReady(b.ctx))
	if span(0, 1) == 0 { // one short drain proves nothing
		b.t.Logf("%.0f events/s in the topic without sick partitions, %.0f before", beside, before)
		return
	}
	b.drain(time.Minute)
	after := b.rates(well, 2*drains)[drains:]
	// Each half with what was nearest in time: the machine has its moods.
	half := len(beside) / 2
	early, late := median(beside[:half])/median(before), median(beside[half:])/median(after)
	b.t.Logf("a topic without sick partitions keeps %.2f of its rate before (%.0f of %.0f events/s), %.2f of that "+
		"after (%.0f of %.0f)", early, beside[:half], before, late, beside[half:], after)
	if kept := (early + late) / 2; kept < 0.8 {
		b.t.Errorf("a topic without sick partitions keeps %.2f of its rate, want 0.8", kept)
	}
}

// backlogs counts the unpublished events of each topic.
func (b *bed) backlogs() map[string]int {
	b.t.Helper()
	rows, err := b.db.Query(b.ctx, "select topic, count(*) from outbox_event where published_at is null group by 1")
	b.ok(err)
	open := map[string]int{}
	var topic string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&topic, &n}, func() error { open[topic] = n; return nil })
	b.ok(err)
	return open
}

// standstill watches a topic to which somebody writes steadily, and tells for how long a second's events or more
// waited.
func (b *bed) standstill(topic string, watch time.Duration) (longest time.Duration) {
	b.t.Helper()
	for flowing, over := time.Now(), time.Now().Add(watch); time.Now().Before(over); {
		if b.backlogs()[topic] < 20 {
			flowing = time.Now()
		}
		longest = max(longest, time.Since(flowing))
		b.letPass(50 * time.Millisecond)
	}
	return longest
}

// rates has the relay drain some thousand events of a topic, so many times, and tells its rates in events a second.
// Their keys are no other writer's.
func (b *bed) rates(topic string, times int) (rates []float64) {
	b.t.Helper()
	events := int(span(5_000, 20_000))
	for range times {
		var last int64
		b.ok(b.db.QueryRow(b.ctx, `
			with written as (
				insert into outbox_event
					(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
				select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', $1, 'drained-' || n % 200
				from generate_series(1, $2::int) n
				returning id)
			select max(id) from written`, topic, events).Scan(&last))
		began := time.Now()
		b.await(time.Minute, "a backlog is drained", func() (done bool) {
			b.ok(b.db.QueryRow(b.ctx, `select published_at is not null from outbox_event where id = $1`, last).
				Scan(&done))
			return done
		})
		rates = append(rates, float64(events)/time.Since(began).Seconds())
	}
	return rates
}

// median of at least one.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// Without two of three in sync nothing is taken, and nothing is lost.
func twoAreGone(b *bed, kafka *servers.Kafka) {
	for _, broker := range kafka.Brokers[:2] {
		b.ok(broker.Kill())
	}
	b.letPass(time.Minute)
	for _, broker := range kafka.Brokers[:2] {
		b.ok(broker.Restart(b.ctx))
	}
}

// A broker that stops in order hands its partitions over first.
func rollingRestart(b *bed, kafka *servers.Kafka) {
	for _, broker := range kafka.Brokers {
		before := b.recordsOf(b.topics[0])
		b.ok(broker.Restart(b.ctx))
		b.ok(kafka.WaitReady(b.ctx))
		b.await(30*time.Second, "events arrive", func() bool { return b.recordsOf(b.topics[0]) > before+20 })
	}
}

// createReplicated makes a topic with these replicas of each partition, the first of which is the leader. Two must be
// in sync, where there are two.
func (b *bed) createReplicated(name string, replicas ...[]int32) {
	b.t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = b.unique+"."+name, -1, -1
	for i, on := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), on
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	least := fmt.Sprint(min(2, len(replicas[0])))
	setting := kmsg.NewCreateTopicsRequestTopicConfig()
	setting.Name, setting.Value = "min.insync.replicas", &least
	topic.Configs = append(topic.Configs, setting)
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.addrs...))
	b.ok(err)
	defer client.Close()
	response, err := request.RequestWith(b.ctx, client)
	b.ok(err)
	if code := response.Topics[0].ErrorCode; code != 0 {
		b.t.Fatalf("create topic %s: error %d", topic.Topic, code)
	}
	b.topics = append(b.topics, topic.Topic)
}
