package posthaste

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"posthaste.dev/posthaste/internal/pgname"
	"posthaste.dev/posthaste/internal/wire"
)

// What a record takes in Kafka beside the bytes of key, value and headers, with every varint at its longest: the frame
// of a batch of one record, that of the record, and the relay's own headers with their fixed parts.
const (
	headerFraming = 5 + 5
	recordFraming = wire.BatchOverhead + 5 + 1 + 10 + 5 + 5 + 5 + 5 + 6*headerFraming +
		len(wire.EventID+wire.EventType+wire.AggregateType+wire.AggregateID+wire.CreatedAt+wire.OutboxID) +
		len("0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d"+"2006-01-02T15:04:05.999999999+00:00"+"-9223372036854775808")
)

// check turns the events of a call into records, or says everything that is wrong with any of them.
func (w *Writer) check(ctx context.Context, events []Event) ([]record, error) {
	var refused []*EventError
	now := w.now()
	records := make([]record, len(events))
	seen := make(map[uuid.UUID]int, len(events))
	for i := range events {
		c := checker{event: events[i], index: i, record: &records[i]}
		if err := c.run(ctx, w, now); err != nil {
			return nil, err
		}
		if first, ok := seen[c.event.ID]; ok {
			c.refuse("event_id", fmt.Errorf("%w: event %d of the call has the same", ErrDuplicateEvent, first))
		} else if c.event.ID != uuid.Nil {
			seen[c.event.ID] = i
		}
		refused = append(refused, c.refused...)
	}
	if len(refused) > 0 {
		return nil, &RefusedError{Given: len(events), Reasons: refused}
	}
	return records, nil
}

// checker goes through one event. It works on a copy: the caller's event is never changed.
type checker struct {
	event   Event
	index   int
	record  *record
	refused []*EventError
}

func (c *checker) refuse(field string, reason error) {
	c.refused = append(c.refused, &EventError{
		Index: c.index, EventType: c.event.Type, EventID: c.event.ID, Field: field, Err: reason,
	})
}

// run fills in the record. What is wrong with the event is collected; an error is none of the event's.
func (c *checker) run(ctx context.Context, w *Writer, now time.Time) error {
	e := &c.event
	doc, payloadErr := readPayload(e.Payload)
	if payloadErr == nil {
		doc.has.adopt(e)
	}
	id := e.ID // stays zero in the event: a refusal names no id that nobody gave
	if id == uuid.Nil {
		var err error
		if id, err = uuid.NewV7(); err != nil {
			return fmt.Errorf("write events: make an event id: %w", err)
		}
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = now
	}
	occurredAt := e.OccurredAt.UTC()
	if y := occurredAt.Year(); y < 0 || y > 9999 {
		c.refuse("occurred_at", fmt.Errorf("%w: RFC 3339 has years from 0 to 9999, not %d", ErrOutOfRange, y))
	}

	t, known := w.types.Lookup(e.Type)
	if !known {
		c.refuse("event_type", fmt.Errorf("%w: add it to the Registry given as Config.Types", ErrUnknownType))
	}
	c.text("aggregate_id", e.AggregateID)
	if e.Key == "" {
		e.Key = e.AggregateID
	}
	c.text("partition_key", e.Key)
	if payloadErr != nil {
		c.refuse("payload", payloadErr)
	}
	headers := c.headers(ctx, w.headers)
	if len(c.refused) > 0 {
		return nil
	}

	values := [memberCount]string{
		memberEventID:       id.String(),
		memberEventType:     e.Type,
		memberOccurredAt:    occurredAt.Format(occurredAtFormat),
		memberAggregateType: t.Aggregate,
		memberAggregateID:   e.AggregateID,
	}
	if err := doc.has.contradiction(&values, occurredAt); err != nil {
		c.refuse("payload", err)
		return nil
	}
	payload, printed := doc.merge(&values)
	object, headerBytes := headersJSON(headers)
	size := recordFraming + len(e.Type) + len(t.Aggregate) + len(e.AggregateID) + len(e.Key) + headerBytes + printed
	if size > w.maxBytes {
		c.refuse("payload",
			fmt.Errorf("%w: the record would have %d bytes (%d of them payload), Config.MaxRecordBytes is %d",
				ErrTooLarge, size, printed, w.maxBytes))
	}
	*c.record = record{
		id: id, aggregateType: t.Aggregate, aggregateID: e.AggregateID, eventType: e.Type,
		payload: payload, topic: t.Topic, key: e.Key, headers: object,
	}
	c.shared(w.columns)
	return nil
}

// shared refuses values that differ although the mapping of columns puts them into one.
func (c *checker) shared(columns pgname.Columns) {
	for later, first := range columns.Shared() {
		if a, b := c.record.value(first), c.record.value(later); a != b {
			c.refuse(later,
				fmt.Errorf("%w: its %s is %s, and Config.Columns puts both into one column", ErrMismatch, first,
					printable(a)))
		}
	}
}

func (c *checker) text(field, value string) {
	if value == "" {
		c.refuse(field, ErrEmpty)
	} else if err := badText(value); err != nil {
		c.refuse(field, err)
	}
}

// headers checks the event's own and adds the trace context. Without the column the trace context is left out: it is
// nothing that the caller asked for by this event.
func (c *checker) headers(ctx context.Context, column bool) map[string]string {
	own := c.event.Headers
	if !column {
		if len(own) > 0 {
			c.refuse("headers", ErrNoHeaders)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		field := fmt.Sprintf("headers[%q]", name)
		switch err := errors.Join(badText(name), badText(own[name])); {
		case name == "":
			c.refuse(field, ErrEmpty)
		case reservedHeader(name):
			c.refuse(field, ErrReservedHeader)
		case err != nil:
			c.refuse(field, err)
		}
	}
	added := traceHeaders(ctx, own)
	if len(added) == 0 {
		return own
	}
	all := maps.Clone(own)
	if all == nil {
		return added
	}
	maps.Copy(all, added)
	return all
}
