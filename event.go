package posthaste

import (
	"time"

	"github.com/google/uuid"
)

// Event is one fact to be written. It is a value: build it by one constructor per event type and do not change it
// afterwards. What a consumer gets is the payload object with five members added to it: event_id, event_type,
// occurred_at, aggregate_type and aggregate_id.
type Event struct {
	// Type is the String of a registered [EventType], such as "order.confirmed.v1".
	Type string

	// AggregateID says which aggregate it happened to. It must not be empty.
	AggregateID string

	// Key is the partition key: events of one key stay in order. Default: AggregateID.
	Key string

	// ID is the event's identity, by which consumers recognise a repetition. Default: the payload's event_id if it has
	// one, else a new UUID v7.
	ID uuid.UUID

	// OccurredAt is when it happened; written in UTC with microseconds, the resolution of PostgreSQL's own times.
	// Default: the payload's occurred_at if it has one, else the time of the call.
	OccurredAt time.Time

	// Payload holds the business fields: a Go value that encoding/json marshals to an object, or the object itself as
	// json.RawMessage or []byte. Numbers in raw JSON keep every digit. The payload may have any of the five members
	// itself, and then must say the same as the event. Do not put personal data into topics that many may read.
	Payload any

	// Headers become headers of the Kafka record, and need the optional column (Config.Headers). Names that the relay
	// uses itself are refused. A traceparent given here is kept, and that of the context is not written then.
	Headers map[string]string
}

// The members that the writer adds to every payload, in the order it adds them.
const (
	memberEventID = iota
	memberEventType
	memberOccurredAt
	memberAggregateType
	memberAggregateID
	memberCount
)

var memberNames = [memberCount]string{"event_id", "event_type", "occurred_at", "aggregate_type", "aggregate_id"}

// record is an event ready to be written: one row of the table.
type record struct {
	id            uuid.UUID
	aggregateType string
	aggregateID   string
	eventType     string
	payload       string
	topic         string
	key           string
	headers       string // a JSON object, or empty for null
}

const columnCount = 8

// value returns one of the columns that may share another's place.
func (r *record) value(column string) string {
	switch column {
	case "aggregate_type":
		return r.aggregateType
	case "aggregate_id":
		return r.aggregateID
	case "event_type":
		return r.eventType
	case "topic":
		return r.topic
	}
	return r.key
}

// columns is the order of the insert's parameters; the optional column stands last.
func (r *record) columns() [columnCount]string {
	return [...]string{r.id.String(), r.aggregateType, r.aggregateID, r.eventType, r.payload, r.topic, r.key, r.headers}
}
