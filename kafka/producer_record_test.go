package kafka_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

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
