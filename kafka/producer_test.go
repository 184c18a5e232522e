package kafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/relay"
)

var lastID atomic.Int64

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

// Whoever raises a limit to send what was refused need not wait until the producer has forgotten the old one.
func TestLimitRaisedUnderWay(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1, "max.message.bytes=4000")
	p := newProducer(t, b)
	large := []*relay.Event{event(topic, "large", `"`+randomText(8000)+`"`), event(topic, "small", "1")}
	if got := classes(p.Publish(t.Context(), large)); got != "refused ok" {
		t.Fatal(got)
	}
	limit := "200000"
	raise := []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}
	if _, err := b.admin.AlterTopicConfigs(t.Context(), raise, topic); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); classes(p.Publish(t.Context(), large[:1])) != "ok"; {
		if time.Now().After(deadline) {
			t.Fatal("the producer goes on to believe the old limit")
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
	if _, err := p.Ping(ctx); err == nil {
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
