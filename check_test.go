package posthaste

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

var testType = EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1}

func testWriter(t *testing.T, cfg Config) *Writer {
	t.Helper()
	var err error
	cfg.Types, err = NewRegistry(testType)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func testEvent() Event {
	return Event{Type: "order.confirmed.v1", AggregateID: "o-1", Payload: json.RawMessage(`{"total":1.10}`)}
}

func TestCheckFillsInWhatIsLeftOpen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	w := testWriter(t, Config{Now: func() time.Time { return now }})
	events := []Event{testEvent(), testEvent()}
	records, err := w.check(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	r := records[0]
	want := record{
		id: r.id, aggregateType: "Order", aggregateID: "o-1", eventType: "order.confirmed.v1",
		topic: "order-service.order.confirmed", key: "o-1",
		payload: `{"event_id":"` + r.id.String() + `","event_type":"order.confirmed.v1",` +
			`"occurred_at":"2026-01-02T02:04:05.000006Z","aggregate_type":"Order","aggregate_id":"o-1","total":1.10}`,
	}
	if r != want {
		t.Errorf("record is\n%+v, want\n%+v", r, want)
	}
	if v := r.id.Version(); v != 7 || records[1].id.String() <= r.id.String() {
		t.Errorf("ids %s and %s: want UUIDs v7 that ascend", r.id, records[1].id)
	}
	if events[0].ID != uuid.Nil || events[0].Key != "" {
		t.Errorf("the caller's event was changed: %+v", events[0])
	}
	e := testEvent()
	e.Key = "customer-7"
	if records, err = w.check(t.Context(), []Event{e}); err != nil || records[0].key != "customer-7" {
		t.Errorf("own key: %+v, %v", records, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	tracing := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	header := func(name, value string) func(*Event) {
		return func(e *Event) { e.Headers = map[string]string{name: value} }
	}
	for _, c := range []struct {
		change func(*Event)
		field  string
		err    error
	}{
		{func(e *Event) { e.Type = "order.confirmed.v2" }, "event_type", ErrUnknownType},
		{func(e *Event) { e.Type = "" }, "event_type", ErrUnknownType},
		{func(e *Event) { e.AggregateID = ""; e.Key = "k" }, "aggregate_id", ErrEmpty},
		{func(e *Event) { e.AggregateID = "a\x00b"; e.Key = "k" }, "aggregate_id", ErrNUL},
		{func(e *Event) { e.AggregateID = "a\xff"; e.Key = "k" }, "aggregate_id", ErrInvalidUTF8},
		{func(e *Event) { e.Key = "\x00" }, "partition_key", ErrNUL},
		{func(e *Event) { e.Key = "\xed\xa0\x80" }, "partition_key", ErrInvalidUTF8},
		{func(e *Event) { e.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "occurred_at", ErrOutOfRange},
		{func(e *Event) { e.OccurredAt = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) }, "occurred_at", ErrOutOfRange},
		{func(e *Event) { e.Payload = nil }, "payload", ErrEmpty},
		{func(e *Event) { e.Payload = []byte(`{"a":`) }, "payload", ErrInvalidJSON},
		{func(e *Event) { e.Payload = []byte(`{"b":1,"a":2,"a":3}`) }, "payload", ErrRepeatedKey},
		{func(e *Event) { e.Payload = []byte(`{"event_id":"x"}`) }, "payload", ErrMismatch},
		{func(e *Event) { e.Payload = map[string]string{"a": strings.Repeat("x", 5000)} }, "payload", ErrTooLarge},
		// Small as written, large as printed.
		{func(e *Event) { e.Payload = []byte(`{"a":1e5000}`) }, "payload", ErrTooLarge},
		{func(e *Event) { e.Payload = []byte(`{"a":[` + strings.Repeat("1,", 1900) + `1]}`) }, "payload", ErrTooLarge},
		{func(e *Event) { e.Key = strings.Repeat("k", 5000) }, "payload", ErrTooLarge},
		{header("big", strings.Repeat("x", 5000)), "payload", ErrTooLarge},
		{header("", "x"), `headers[""]`, ErrEmpty},
		{header("event_id", "spoof"), `headers["event_id"]`, ErrReservedHeader},
		{header("Outbox_ID", "7"), `headers["Outbox_ID"]`, ErrReservedHeader},
		{header("tenant", "a\x00"), `headers["tenant"]`, ErrNUL},
		{header("te\xffnant", "a"), `headers["te\xffnant"]`, ErrInvalidUTF8},
	} {
		e := testEvent()
		c.change(&e)
		w := testWriter(t, Config{Headers: true, MaxRecordBytes: 5000})
		_, err := w.check(tracing, []Event{testEvent(), e})
		var refused *RefusedError
		if !errors.As(err, &refused) || len(refused.Reasons) != 1 {
			t.Errorf("%.200v: %v, want one reason", e, err)
			continue
		}
		got := refused.Reasons[0]
		if got.Index != 1 || got.EventType != e.Type || got.Field != c.field || !errors.Is(err, c.err) {
			t.Errorf("%v, want field %s and %q", err, c.field, c.err)
		}
	}
}

func TestCheckTellsEverythingAtOnce(t *testing.T) {
	id := uuid.MustParse("0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d")
	twice := testEvent()
	twice.ID = id
	_, err := testWriter(t, Config{}).check(t.Context(), []Event{
		twice, {}, twice, testEvent(), {Type: "order.confirmed.v1", Headers: map[string]string{"a": "b"}},
	})
	want := strings.ReplaceAll(`write events: 3 of 5 refused, nothing was written:
  event 1: event_type is not registered: add it to the Registry given as Config.Types
  event 1: aggregate_id is empty
  event 1: partition_key is empty
  event 1: payload is empty: give an object, struct{}{} for one without business fields
  event 2 order.confirmed.v1 ID: event_id was written before: event 0 of the call has the same
  event 4 order.confirmed.v1: aggregate_id is empty
  event 4 order.confirmed.v1: partition_key is empty
  event 4 order.confirmed.v1: payload is empty: give an object, struct{}{} for one without business fields
  event 4 order.confirmed.v1: headers needs the column headers, which Config.Headers says the table lacks`,
		"ID", id.String())
	if err == nil || err.Error() != want {
		t.Errorf("refused as\n%v\nwant\n%s", err, want)
	}
	if !errors.Is(err, ErrDuplicateEvent) || !errors.Is(err, ErrUnknownType) {
		t.Error("errors.Is does not find the reasons")
	}

	_, err = testWriter(t, Config{}).check(t.Context(), make([]Event, 10000))
	if text := err.Error(); len(text) > 4000 || !strings.HasSuffix(text, "and 39980 more") {
		t.Errorf("10,000 refusals make a text of %d bytes", len(text))
	}
}

func TestTraceHeaders(t *testing.T) {
	state, err := trace.ParseTraceState("a=b")
	if err != nil {
		t.Fatal(err)
	}
	span := trace.SpanContextConfig{
		TraceID:    trace.TraceID([]byte("posthaste: trace")),
		SpanID:     trace.SpanID([]byte("the span")),
		TraceFlags: trace.FlagsSampled,
		TraceState: state,
	}
	const parent = `"traceparent":"00-706f737468617374653a207472616365-746865207370616e-0`
	with := func(c trace.SpanContextConfig) context.Context {
		return trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(c))
	}
	unsampled := span
	unsampled.TraceFlags, unsampled.TraceState = 0xf0, trace.TraceState{} // unknown flags are not ours to send
	for _, c := range []struct {
		ctx  context.Context
		own  map[string]string
		want string
	}{
		{t.Context(), nil, ``},
		{t.Context(), map[string]string{"tenant": `a"b`, "empty": ""}, `{"empty":"","tenant":"a\"b"}`},
		{with(span), nil, `{` + parent + `1","tracestate":"a=b"}`},
		{with(span), map[string]string{"tenant": "x"}, `{"tenant":"x",` + parent + `1","tracestate":"a=b"}`},
		{with(unsampled), nil, `{` + parent + `0"}`},
		{with(span), map[string]string{"Traceparent": "mine"}, `{"Traceparent":"mine"}`},
		{with(trace.SpanContextConfig{TraceID: span.TraceID}), nil, ``},
	} {
		e := testEvent()
		e.Headers = c.own
		given := len(c.own)
		records, err := testWriter(t, Config{Headers: true}).check(c.ctx, []Event{e})
		if err != nil || records[0].headers != c.want {
			t.Errorf("headers are %s, %v; want %s", records[0].headers, err, c.want)
		}
		if len(c.own) != given {
			t.Errorf("the caller's headers were changed: %v", c.own)
		}
	}
	// Without the column nothing of it is written, and nothing refused.
	records, err := testWriter(t, Config{}).check(with(span), []Event{testEvent()})
	if err != nil || records[0].headers != "" {
		t.Errorf("without the column: %q, %v", records[0].headers, err)
	}
}

// BenchmarkCheck measures what the writer itself costs, without the database.
func BenchmarkCheck(b *testing.B) {
	types, err := NewRegistry(testType)
	if err != nil {
		b.Fatal(err)
	}
	w, err := NewWriter(Config{Types: types, Headers: true})
	if err != nil {
		b.Fatal(err)
	}
	type order struct {
		OrderID, CustomerID   uuid.UUID
		TotalAmount, Currency string
		Lines                 []int
	}
	value := order{uuid.New(), uuid.New(), "19.90", "EUR", []int{1, 2, 3}}
	raw, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	for name, payload := range map[string]any{"value": value, "raw": raw} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				records, err := w.check(b.Context(),
					[]Event{{Type: "order.confirmed.v1", AggregateID: "o-1", Payload: payload}})
				if err != nil {
					b.Fatal(err)
				}
				w.parameters(records)
			}
		})
	}
}
