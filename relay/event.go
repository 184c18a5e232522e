package relay

import (
	"time"

	"github.com/google/uuid"
)

// Event is one unpublished row of the outbox table, as a read found it. AggregateType, AggregateID, EventType and
// CreatedAt are zero where the table has no such column, or a null in it; their headers are then left out.
type Event struct {
	ID            int64 // the row's identity; first deliveries of a key follow it
	EventID       uuid.UUID
	AggregateType string
	AggregateID   string
	EventType     string
	Topic         string
	Key           string // the partition key
	Payload       []byte // the payload as PostgreSQL prints it; never decoded here
	Headers       []byte // the optional headers column as PostgreSQL prints it, nil where null or absent
	CreatedAt     time.Time
	Lane          int

	class    int // of the topic, set when it arrives
	attempts int // that ended with its being parked
}

// rowOverhead is what an Event costs in memory beside its bytes: the struct, its slot in the queues and its entry in
// the set of known ids, rounded up.
const rowOverhead = 400

// Size estimates the memory that the event holds.
func (e *Event) Size() int {
	return rowOverhead + len(e.AggregateType) + len(e.AggregateID) + len(e.EventType) + len(e.Topic) + len(e.Key) +
		len(e.Payload) + len(e.Headers)
}

// Ref names a row for settling: the id alone would mark a newer event after TRUNCATE ... RESTART IDENTITY or the
// restore of a dump.
type Ref struct {
	ID      int64
	EventID uuid.UUID
}
