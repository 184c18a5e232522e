package posthaste_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"posthaste.dev/posthaste"
)

// sent is a Sender that keeps what it is given.
type sent struct {
	topic, key, value string
	headers           map[string]string
	calls             int
	wait              bool // for the end of the context
}

func (s *sent) Send(ctx context.Context, topic, key string, value []byte, headers map[string]string) error {
	s.topic, s.key, s.value, s.headers = topic, key, string(value), headers
	s.calls++
	if s.wait {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *sent) Close(context.Context) error { return nil }

func newTechnical(t *testing.T, sender posthaste.Sender) *posthaste.Technical {
	t.Helper()
	types, err := posthaste.NewRegistry(
		posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1},
		posthaste.EventType{Service: "order-service", Aggregate: "PriceList", Name: "PriceListPublished", Version: 2},
		posthaste.EventType{Aggregate: "Refund", Name: "money.returned", Version: 1, Topic: "refunds"},
	)
	if err != nil {
		t.Fatal(err)
	}
	technical, err := posthaste.NewTechnical(posthaste.TechnicalConfig{Types: types, Sender: sender})
	if err != nil {
		t.Fatal(err)
	}
	return technical
}

func technicalEvent(change func(*posthaste.TechnicalEvent)) posthaste.TechnicalEvent {
	e := posthaste.TechnicalEvent{Topic: "order-service.cache", Type: "cache.invalidated", Key: "prices",
		Payload: json.RawMessage(`{"n": 9007199254740993, "s": "<&>"}`)}
	if change != nil {
		change(&e)
	}
	return e
}

func TestTechnicalSends(t *testing.T) {
	t.Parallel()
	var s sent
	ctx := trace.ContextWithSpanContext(t.Context(),
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	event := technicalEvent(func(e *posthaste.TechnicalEvent) { e.Headers = map[string]string{"tenant": "a"} })
	if err := newTechnical(t, &s).Send(ctx, event); err != nil {
		t.Fatal(err)
	}
	if s.topic != event.Topic || s.key != event.Key || s.value != `{"n": 9007199254740993, "s": "<&>"}` {
		t.Errorf("sent %s=%s to %s", s.key, s.value, s.topic)
	}
	want := map[string]string{"technical_type": "cache.invalidated", "tenant": "a",
		"traceparent": "00-01000000000000000000000000000000-0200000000000000-00"}
	if !maps.Equal(s.headers, want) {
		t.Errorf("headers %v, want %v", s.headers, want)
	}
	event = technicalEvent(func(e *posthaste.TechnicalEvent) {
		e.Payload, e.Headers = struct{ S string }{"<"}, map[string]string{"traceparent": "own"}
	})
	if err := newTechnical(t, &s).Send(ctx, event); err != nil || s.value != `{"S":"<"}` ||
		s.headers["traceparent"] != "own" {
		t.Errorf("sent %s with %v, %v", s.value, s.headers, err)
	}
}

// change makes an event another one.
type change = func(*posthaste.TechnicalEvent)

func onTopic(topic string) change {
	return func(e *posthaste.TechnicalEvent) { e.Topic = topic }
}

func ofType(name string) change {
	return func(e *posthaste.TechnicalEvent) { e.Type = name }
}

func withPayload(payload any) change {
	return func(e *posthaste.TechnicalEvent) { e.Payload = payload }
}

// What claims to be a domain event must go through the outbox, however it claims it.
func TestTechnicalRefusesDomainEvents(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{
		"a registered topic":         onTopic("order-service.order.confirmed"),
		"its retry topic":            onTopic("order-service.order.confirmed.retry.5s"),
		"a topic of the aggregate":   onTopic("order-service.order.shipped"),
		"the topic of the aggregate": onTopic("order-service.price-list"),
		"a topic of the user's":      onTopic("refunds"),
		"a registered type":          ofType("order.confirmed.v1"),
		"the next version":           ofType("order.confirmed.v2"),
		"no version":                 ofType("order.confirmed"),
		"the other style":            ofType("OrderConfirmed"),
		"an event of the aggregate":  ofType("order.shipped"),
		"one of two words":           ofType("price-list.withdrawn"),
		"an event named by itself":   ofType("money.returned.v1"),
		"the relay's header": func(e *posthaste.TechnicalEvent) {
			e.Headers = map[string]string{"Event_ID": "x"}
		},
		"an aggregate in the payload":   withPayload([]byte(`{"aggregate_id": "o-1"}`)),
		"a Go value with an aggregate":  withPayload(map[string]any{"aggregate_type": "Order"}),
		"an event type in the payload":  withPayload([]byte(`{"event_type": "order.confirmed.v1"}`)),
		"one spelled by JSON's escapes": withPayload([]byte(`{"aggregate\u005fid": 1}`)),
	} {
		var s sent
		err := newTechnical(t, &s).Send(t.Context(), technicalEvent(change))
		refused, typed := errors.AsType[*posthaste.TechnicalError](err)
		if !typed || len(refused.Reasons) != 1 || !errors.Is(err, posthaste.ErrDomainEvent) {
			t.Errorf("%s: %v; want one reason, ErrDomainEvent", name, err)
		} else if !strings.Contains(err.Error(), "by a Writer") {
			t.Errorf("%s: %v does not say the way out", name, err)
		}
		if s.calls > 0 {
			t.Errorf("%s was sent", name)
		}
	}
}

// What only looks a little like one is free.
func TestTechnicalLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{
		"another service's name":        onTopic("order-service-2.order"),
		"a name that begins alike":      onTopic("order-service.orders"),
		"the service alone":             onTopic("order-service"),
		"a word that begins alike":      ofType("ordering.paused"),
		"an aggregate that ends it":     ofType("cache.order"),
		"a version of its own":          ofType("cache.invalidated.v2"),
		"an id and a time of its own":   withPayload([]byte(`{"event_id": 1, "occurred_at": 2}`)),
		"an event type of its own":      withPayload([]byte(`{"event_type": "cache.invalidated"}`)),
		"an event type that is no text": withPayload([]byte(`{"event_type": {}}`)),
		"an aggregate further down":     withPayload([]byte(`{"a": {"aggregate_id": 1}}`)),
	} {
		if err := newTechnical(t, &sent{}).Send(t.Context(), technicalEvent(change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTechnicalRefusesBadInput(t *testing.T) {
	t.Parallel()
	var s sent
	err := newTechnical(t, &s).Send(t.Context(), posthaste.TechnicalEvent{
		Topic: "no/name", Headers: map[string]string{"": "x", "technical_type": "y"}})
	const want = `send technical event: refused, nothing was sent:
  topic no/name is not a legal Kafka topic: want up to 249 letters, digits, . - _
  type is empty
  key is empty: it chooses the partition
  header name is empty
  header technical_type is taken: it holds the type
  payload is empty: give an object, struct{}{} for one that says nothing`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	for _, sentinel := range []error{posthaste.ErrEmpty, posthaste.ErrIllegalTopic} {
		if !errors.Is(err, sentinel) {
			t.Errorf("the error is no %v", sentinel)
		}
	}
	for _, payload := range []any{[]byte(`{`), []byte(`[1]`), []byte(`null`), []byte(nil), make(chan int), "text"} {
		err := newTechnical(t, &s).Send(t.Context(),
			technicalEvent(func(e *posthaste.TechnicalEvent) { e.Payload = payload }))
		if !errors.Is(err, posthaste.ErrInvalidJSON) {
			t.Errorf("payload %v: %v", payload, err)
		}
	}
	if s.calls > 0 {
		t.Errorf("%d were sent", s.calls)
	}
}

// A request without a deadline must not hang as long as Kafka is away.
func TestTechnicalTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := newTechnical(t, &sent{wait: true}).Send(t.Context(), technicalEvent(nil))
		if took := time.Since(begun); took != posthaste.DefaultTechnicalTimeout ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		err = newTechnical(t, &sent{wait: true}).Send(ctx, technicalEvent(nil))
		if took := time.Since(begun); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context of a second, after %v: %v", took, err)
		}
	})
}

func TestTechnicalConfig(t *testing.T) {
	t.Parallel()
	_, err := posthaste.NewTechnical(posthaste.TechnicalConfig{Timeout: -1})
	for _, field := range []string{"Types", "Sender", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), "field "+field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
