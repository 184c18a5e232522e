package kafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/relay"
)

// broker is the real cluster of one broker, as a test sees it.
type broker struct {
	t     testing.TB
	addrs []string
	admin *kadm.Client
}

func newBroker(t testing.TB) *broker {
	t.Helper()
	b := &broker{t: t, addrs: strings.Split(testenv.Require(t, testenv.KafkaBrokers), ",")}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	if err != nil {
		t.Fatal(err)
	}
	b.admin = kadm.NewClient(client)
	t.Cleanup(client.Close)
	return b
}

// topic makes a topic with settings key=value, deleted at the end of the test.
func (b *broker) topic(partitions int32, settings ...string) string {
	b.t.Helper()
	name := "kafka-test-" + strings.ToLower(rand.Text())
	configs := map[string]*string{}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		configs[key] = &value
	}
	if _, err := b.admin.CreateTopic(context.Background(), partitions, 1, configs, name); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _, _ = b.admin.DeleteTopics(context.Background(), name) })
	for deadline := time.Now().Add(time.Minute); ; { // the broker learns of it a moment after the controller
		topics, err := b.admin.ListTopics(context.Background(), name)
		if err == nil && topics[name].Err == nil && len(topics[name].Partitions) == int(partitions) {
			return name
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("topic %s never shows: %v", name, err)
		}
	}
}

// records reads the topic from its start to its end.
func (b *broker) records(topic string) []*kgo.Record {
	b.t.Helper()
	ends, err := b.admin.ListEndOffsets(context.Background(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for int64(len(records)) < left && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { records = append(records, r) })
	}
	if int64(len(records)) < left {
		b.t.Fatalf("read %d of %d records of %s", len(records), left, topic)
	}
	return records
}

func newProducer(t testing.TB, b *broker) *kafka.Producer {
	t.Helper()
	p, err := kafka.NewProducer(kafka.Config{Brokers: b.addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func event(topic, key, payload string) *relay.Event {
	return &relay.Event{ID: lastID.Add(1), EventID: uuid.Must(uuid.NewV7()), AggregateType: "Order", AggregateID: key,
		EventType: "order.confirmed.v1", Topic: topic, Key: key, Payload: []byte(payload),
		CreatedAt: time.Date(2001, 2, 3, 4, 5, 6, 789000, time.FixedZone("", 3600))}
}

// classes names the outcome of each event.
func classes(errs []error) string {
	var names []string
	for _, err := range errs {
		name := "ok"
		if f, ok := errors.AsType[*relay.Failure](err); ok {
			name = f.Class.String()
		} else if err != nil {
			name = "bare: " + err.Error()
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
