package kafka

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"posthaste.dev/posthaste/relay"
)

// What an adopted table has no column for, or a null in it, makes no header: an empty one would say that it is empty.
func TestRecordWithoutOptionalColumns(t *testing.T) {
	t.Parallel()
	r, err := newRecord(&relay.Event{ID: 7, EventID: uuid.Max, Topic: "t", Key: "k", Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Headers) != 2 || r.Headers[0].Key != HeaderEventID || r.Headers[1].Key != HeaderOutboxID {
		t.Errorf("headers %v, want event_id and outbox_id alone", r.Headers)
	}
}

// Every event costs so many pieces of memory; another one is to be noticed.
func TestRecordAllocations(t *testing.T) {
	e := usualEvent()
	if n := testing.AllocsPerRun(100, func() { _, _ = newRecord(e) }); n > 3 {
		t.Errorf("a record takes %v allocations, want 3: its values, its headers and itself", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	e := usualEvent()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newRecord(e); err != nil {
			b.Fatal(err)
		}
	}
}

func usualEvent() *relay.Event {
	return &relay.Event{ID: 1_234_567, EventID: uuid.New(), AggregateType: "Order", AggregateID: "order-4711",
		EventType: "order.confirmed.v1", Topic: "order-service.order.confirmed", Key: "order-4711",
		Payload: make([]byte, 300), CreatedAt: time.Date(2026, 12, 1, 3, 4, 5, 678901000, time.UTC)}
}
