// Package wire holds what the writer and the producer must agree on about a record in Kafka: the writer refuses an
// event that the producer could not send as it stands.
package wire

// The headers that every record carries.
const (
	EventID       = "event_id"
	EventType     = "event_type"
	AggregateType = "aggregate_type"
	AggregateID   = "aggregate_id"
	CreatedAt     = "created_at"
	OutboxID      = "outbox_id"
)

// Reserved tells whether a header's name is one of them.
func Reserved(name string) bool {
	switch name {
	case EventID, EventType, AggregateType, AggregateID, CreatedAt, OutboxID:
		return true
	}
	return false
}

// BatchOverhead is what a record batch of format v2 has before its first record, in bytes.
const BatchOverhead = 61
