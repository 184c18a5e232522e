package kafka_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/kafka"
)

var _ posthaste.Sender = (*kafka.Sender)(nil)

// newTechnical is what a service makes once, when it starts.
func newTechnical(t testing.TB, brokers []string) *posthaste.Technical {
	t.Helper()
	sender, err := kafka.NewSender(kafka.Config{Brokers: brokers, ClientID: "order-service"})
	if err != nil {
		t.Fatal(err)
	}
	types, err := posthaste.NewRegistry(
		posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	technical, err := posthaste.NewTechnical(
		posthaste.TechnicalConfig{Types: types, Sender: sender, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTechnical(t, technical) })
	return technical
}

func closeTechnical(t testing.TB, technical *posthaste.Technical) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := technical.Close(ctx); err != nil {
		t.Error(err)
	}
}

func cacheEvent(topic, key string) posthaste.TechnicalEvent {
	return posthaste.TechnicalEvent{Topic: topic, Type: "cache.invalidated", Key: key, Payload: []byte(`{"amt": 1.10}`)}
}

func TestTechnicalRecord(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1)
	event := cacheEvent(topic, "prices")
	event.Headers = map[string]string{"tenant": "a", "empty": ""}
	if err := newTechnical(t, b.addrs).Send(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	r := b.records(topic)[0]
	if string(r.Key) != "prices" || string(r.Value) != `{"amt": 1.10}` || time.Since(r.Timestamp).Abs() > time.Minute {
		t.Errorf("record %s=%s at %v", r.Key, r.Value, r.Timestamp)
	}
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	want := map[string]string{"technical_type": "cache.invalidated", "tenant": "a", "empty": ""}
	if !maps.Equal(headers, want) {
		t.Errorf("headers %v, want %v", headers, want)
	}
}

// Partitions as the Java client's murmur2 chooses them; hashes with the top bit set are those that others get wrong.
func TestTechnicalPartitions(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	technical := newTechnical(t, b.addrs)
	for _, c := range []struct {
		key        string
		partitions int32
		want       int32
	}{
		{"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26},
		{"f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5},
		{"TT0124", 15, 10},
		{"ключ-1", 12, 9},
	} {
		topic := b.topic(c.partitions)
		if err := technical.Send(t.Context(), cacheEvent(topic, c.key)); err != nil {
			t.Fatal(err)
		}
		if got := b.records(topic)[0].Partition; got != c.want {
			t.Errorf("key %s of %d partitions lands on %d, want %d", c.key, c.partitions, got, c.want)
		}
	}
}

// Many goroutines share one, each of the two topics gets each event once, and Close leaves nothing behind. Not
// parallel, so that the goroutines left are its own.
func TestTechnicalConcurrently(t *testing.T) {
	b := newBroker(t)
	// Together the records are larger than a batch of this topic may be.
	topics := []string{b.topic(3, "max.message.bytes=4000"), b.topic(3)}
	before := goleak.IgnoreCurrent()
	technical := newTechnical(t, b.addrs)
	var group sync.WaitGroup
	for worker := range 50 {
		group.Go(func() {
			for n := 1; n <= 20; n++ {
				event := cacheEvent(topics[n%2], fmt.Sprintf("worker %d", worker))
				event.Payload = map[string]any{"n": n, "filler": randomText(500)}
				if err := technical.Send(t.Context(), event); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	closeTechnical(t, technical)
	goleak.VerifyNone(t, before)
	for _, topic := range topics {
		last := map[string]int{} // what a worker sends to a topic ascends
		records := b.records(topic)
		if len(records) != 500 {
			t.Errorf("%d records in a topic, want 500", len(records))
		}
		for _, r := range records {
			var payload struct{ N int }
			if err := json.Unmarshal(r.Value, &payload); err != nil {
				t.Fatal(err)
			}
			if payload.N <= last[string(r.Key)] {
				t.Errorf("event %d of %s came after event %d", payload.N, r.Key, last[string(r.Key)])
			}
			last[string(r.Key)] = payload.N
		}
	}
	err := technical.Send(t.Context(), cacheEvent(topics[0], "late"))
	if err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}

// A topic may come late, go, and come again.
func TestTechnicalTopicComesAndGoes(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	technical := newTechnical(t, b.addrs)
	topic, healthy := "kafka-test-late-"+strings.ToLower(rand.Text()), b.topic(1)
	begun := time.Now()
	err := technical.Send(t.Context(), cacheEvent(topic, "k"))
	if err == nil || !strings.Contains(err.Error(), "topic "+topic+" does not exist; create it") {
		t.Errorf("to a missing topic: %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("a missing topic took %v to be found", took)
	}
	t.Cleanup(func() { _, _ = b.admin.DeleteTopics(context.Background(), topic) })
	for round := range 2 {
		if _, err := b.admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		untilSent(t, technical, cacheEvent(topic, "k"), func(err error) bool { return err == nil })
		if _, err := b.admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			untilSent(t, technical, cacheEvent(topic, "k"), func(err error) bool { return err != nil })
		}
		if err := technical.Send(t.Context(), cacheEvent(healthy, "k")); err != nil {
			t.Errorf("the other topic suffers: %v", err)
		}
	}
}

// untilSent sends until the outcome is as wanted.
func untilSent(t *testing.T, technical *posthaste.Technical, event posthaste.TechnicalEvent, wanted func(error) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := technical.Send(ctx, event)
		if wanted(err) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("it never turns: %v", err)
		}
	}
}

func TestTechnicalTooLarge(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1, "max.message.bytes=2000")
	technical := newTechnical(t, b.addrs)
	event := cacheEvent(topic, "k")
	event.Payload = map[string]string{"filler": randomText(3000)}
	if err := technical.Send(t.Context(), event); err == nil || !strings.Contains(err.Error(), "the topic takes 2000") {
		t.Errorf("a record too large: %v", err)
	}
	if err := technical.Send(t.Context(), cacheEvent(topic, "k")); err != nil {
		t.Error(err)
	}
}

// Where nobody listens a Send fails at once and says why; where nobody answers it ends with its context, and so does
// Close. No goroutine is left. Not parallel, for the same reason as above.
func TestTechnicalWithoutKafka(t *testing.T) {
	before := goleak.IgnoreCurrent()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"127.0.0.1:1":          "connection refused",
		silent.Addr().String(): "deadline exceeded",
	} {
		technical := newTechnical(t, []string{address})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := technical.Send(ctx, cacheEvent("topic", "k")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("at %s: %v; want %s", address, err, want)
		}
		err := technical.Send(ctx, cacheEvent("topic", "k"))
		if err == nil || ctx.Err() == nil && want == "deadline exceeded" {
			t.Errorf("at %s with an ended context: %v", address, err)
		}
		cancel()
		closeTechnical(t, technical)
	}
	silent.Close()
	goleak.VerifyNone(t, before)
}

func TestSenderConfig(t *testing.T) {
	t.Parallel()
	if _, err := kafka.NewSender(kafka.Config{}); err == nil || !strings.Contains(err.Error(), "KAFKA_BROKERS") {
		t.Error(err)
	}
	sender, err := kafka.NewSender(kafka.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, explained := errors.AsType[*kafka.ConnectError](sender.Ping(ctx)); !explained {
		t.Error("a ping without a broker is not explained")
	}
	for _, topic := range []string{"", strings.Repeat("x", 250)} {
		if err := sender.Send(t.Context(), topic, "k", nil, nil); err == nil {
			t.Errorf("topic %q is taken", topic)
		}
	}
}
