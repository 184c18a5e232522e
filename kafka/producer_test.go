package kafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

var lastID atomic.Int64

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

func TestRecord(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(3)
	p := newProducer(t, b)
	plain := event(topic, "k", `{"id": 9007199254740993, "amt": 1.10}`)
	extra := event(topic, "k", `{}`)
	extra.Headers = []byte(`{"empty": "", "tenant": "a\"b", "event_id": "spoof"}`)
	empty := event(topic, "", `{}`)
	if got := classes(p.Publish(t.Context(), []*relay.Event{plain, extra, empty})); got != "ok ok ok" {
		t.Fatal(got)
	}
	found := map[string]*kgo.Record{}
	for _, r := range b.records(topic) {
		found[headerOf(r, "event_id")] = r
	}
	r := found[plain.EventID.String()]
	if string(r.Value) != string(plain.Payload) || string(r.Key) != "k" || time.Since(r.Timestamp).Abs() > time.Minute {
		t.Errorf("record %s=%s at %v; want the payload's bytes and the time of sending", r.Key, r.Value, r.Timestamp)
	}
	for name, want := range map[string]string{
		"event_type": "order.confirmed.v1", "aggregate_type": "Order", "aggregate_id": "k",
		"created_at": "2001-02-03T03:05:06.000789Z", "outbox_id": fmt.Sprint(plain.ID),
	} {
		if got := headerOf(r, name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	r = found[extra.EventID.String()]
	if headerOf(r, "tenant") != `a"b` || headerOf(r, "empty") != "" || len(r.Headers) != 8 {
		t.Errorf("headers %v; want tenant and an empty one beside the six, and the reserved one overridden", r.Headers)
	}
	if r := found[empty.EventID.String()]; r.Key == nil {
		t.Error("an empty key became no key")
	}
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return "absent"
}

func TestRefusedHeaders(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1)
	p := newProducer(t, b)
	for _, headers := range []string{`{"n": 5}`, `{"x": null}`, `["a"]`, `"a"`, `{"a": {"b": "c"}}`} {
		bad, behind, other := event(topic, "a", `{}`), event(topic, "a", `{}`), event(topic, "b", `{}`)
		bad.Headers = []byte(headers)
		errs := p.Publish(t.Context(), []*relay.Event{bad, behind, other})
		if got := classes(errs); got != "refused unsent ok" {
			t.Errorf("headers %s: %s; want the event refused, its key's next to wait, the other sent", headers, got)
		}
		if !strings.Contains(errs[0].Error(), bad.EventID.String()) {
			t.Errorf("the refusal %q does not name the event", errs[0])
		}
	}
}

// A name that can't even be asked for must not spoil the question for the others.
func TestImpossibleTopicNames(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1)
	p := newProducer(t, b)
	events := []*relay.Event{event("", "a", `{}`), event(strings.Repeat("x", 250), "b", `{}`),
		event(strings.Repeat("x", 70_000), "c", `{}`), event(topic, "d", `{}`)}
	if got := classes(p.Publish(t.Context(), events)); got != "topic topic topic ok" {
		t.Error(got)
	}
}

func TestUnusableTopic(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic, missing := b.topic(1), "kafka-test-missing-"+strings.ToLower(rand.Text())
	p := newProducer(t, b)
	events := []*relay.Event{event(missing, "a", `{}`), event(topic, "a", `{}`), event(missing, "b", `{}`),
		event("no/name", "c", `{}`)}
	begun := time.Now()
	if got := classes(p.Publish(t.Context(), events)); got != "topic ok topic topic" {
		t.Error(got)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("a missing topic took %v to be found", took)
	}
	if _, err := b.admin.CreateTopic(t.Context(), 1, 1, nil, missing); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if classes(p.Publish(t.Context(), events[:1])) == "ok" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a topic made later is never found")
		}
	}
	_, _ = b.admin.DeleteTopics(context.Background(), missing)
}

// randomText does not compress.
func randomText(n int) string {
	var s strings.Builder
	for s.Len() < n {
		s.WriteString(rand.Text())
	}
	return s.String()[:n]
}

// confluentinc/librdkafka#488, dpkp/kafka-python#220: small records were refused together with a large neighbour, or
// because the batch was too large as a whole.
func TestOnlyTheLargeRecordIsRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for name, filler := range map[string]func(n int) string{
		"compressible": func(n int) string { return strings.Repeat("x", n) },
		"random":       randomText,
	} {
		t.Run(name, func(t *testing.T) {
			topic := b.topic(1, "max.message.bytes=20000")
			p := newProducer(t, b)
			var events []*relay.Event
			for i := range 500 {
				events = append(events, event(topic, fmt.Sprint("k", i), `"`+filler(2000)+`"`))
			}
			for i, err := range p.Publish(t.Context(), events) {
				if err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
			}
			large := event(topic, "large", `"`+filler(40000)+`"`)
			again := append(append([]*relay.Event{}, events[:250]...), large)
			again = append(again, events[250:]...)
			for i, err := range p.Publish(t.Context(), again) {
				if refused := err != nil; refused != (i == 250) {
					t.Fatalf("event %d: %v", i, err)
				}
			}
			records := b.records(topic)
			if len(records) != 1000 {
				t.Fatalf("%d records, want 1,000", len(records))
			}
			for i, r := range records {
				if string(r.Key) != fmt.Sprint("k", i%500) {
					t.Fatalf("record %d has key %s: out of order", i, r.Key)
				}
			}
		})
	}
}

// The limit is lowered after the producer has learnt it: the broker refuses whole batches then.
func TestLimitLoweredUnderWay(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1, "max.message.bytes=200000")
	p := newProducer(t, b)
	var events []*relay.Event
	for i := range 60 {
		events = append(events, event(topic, fmt.Sprint("k", i), `"`+randomText(2000)+`"`))
	}
	probe := newProducer(t, b) // knows the old limit, too
	for _, producer := range []*kafka.Producer{p, probe} {
		if got := classes(producer.Publish(t.Context(), events[:1])); got != "ok" {
			t.Fatal(got)
		}
	}
	limit := "4000"
	lower := []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}
	if _, err := b.admin.AlterTopicConfigs(t.Context(), lower, topic); err != nil {
		t.Fatal(err)
	}
	large := event(topic, "large", `"`+randomText(8000)+`"`)
	// The answer comes before the broker acts on it.
	publishLarge := func() string { return classes(probe.Publish(t.Context(), []*relay.Event{large})) }
	for deadline := time.Now().Add(30 * time.Second); publishLarge() == "ok"; {
		if time.Now().After(deadline) {
			t.Fatal("the broker does not lower the limit")
		}
	}
	chunk := append(append([]*relay.Event{}, events[:30]...), large)
	chunk = append(chunk, events[30:]...)
	for round := range 2 {
		for i, err := range p.Publish(t.Context(), chunk) {
			if refused := err != nil; refused != (i == 30) {
				t.Fatalf("round %d, event %d: %v", round, i, err)
			}
		}
	}
}

func TestPublishStopsWaitingWithItsContext(t *testing.T) {
	t.Parallel()
	p, err := kafka.NewProducer(kafka.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	got := classes(p.Publish(ctx, []*relay.Event{event("t", "k", `{}`)}))
	if !strings.Contains(got, "bare") && got != "outage" {
		t.Errorf("without a broker: %s, want an outage", got)
	}
	if err := p.Ping(ctx); err == nil {
		t.Error("ping without a broker succeeds")
	}
}

func TestConfigRefusals(t *testing.T) {
	for want, cfg := range map[string]kafka.Config{
		"KAFKA_BROKERS: empty":     {},
		`"b1" is not host:port`:    {Brokers: []string{"b1"}},
		"POSTHASTE_KAFKA_TLS=on":   {Brokers: []string{"b:1"}, CAFile: "x"},
		"POSTHASTE_KAFKA_USERNAME": {Brokers: []string{"b:1"}, SASL: "plain"},
		"without POSTHASTE_KAFKA_": {Brokers: []string{"b:1"}, Username: "u", Password: "secret-word"},
		"want none, plain": {
			Brokers: []string{"b:1"}, SASL: "kerberos", Username: "u", Password: "secret-word"},
		"no such file": {Brokers: []string{"b:1"}, TLS: true, CAFile: "/does/not/exist"},
	} {
		_, err := kafka.NewProducer(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%+v: %v; want an error that says %q", cfg, err, want)
		}
	}
}
