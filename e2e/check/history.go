// Package check judges what relays did. It knows three witnesses and nothing of the relay: the writers' own ledger of
// what they committed, the outbox table read by plain SQL, and Kafka read from the start to the high watermark by a
// consumer of its own. It shares no code with Posthaste, which a test holds, so a mistake there can't hide itself here.
//
// What it can't see: an event committed and deleted by something other than the relay while the writers kept no ledger
// of it.
package check

import "time"

// Event is an event that was committed, as its writer or the table knows it.
type Event struct {
	ID            int64
	EventID       string // the UUID as PostgreSQL prints it
	AggregateType string
	AggregateID   string
	Type          string
	Topic         string
	Key           string
	Value         string // payload::text
	CreatedAt     time.Time
	Headers       map[string]string // of the headers column, if the table has one
	Published     bool              // published_at is set; only the table knows
}

// Header is one header of a record.
type Header struct {
	Name  string
	Value string
}

// Record is a record as Kafka has it.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte // nil where the record has no key
	Value     []byte
	Headers   []Header
	Time      time.Time
}

// Header returns the value of the first header of that name, "" where there is none.
func (r Record) Header(name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Partition names one partition of a topic.
type Partition struct {
	Topic string
	Num   int32
}

// Audit is one look taken while the relays ran: these events were marked as published, and afterwards the partitions
// ended here. A marked event whose first record stands at or behind the end was marked before Kafka had it.
type Audit struct {
	Marked []string // event ids
	Ends   map[Partition]int64
}

// History is all that the witnesses say of one run.
type History struct {
	Ledger  []Event  // what the writers committed, by their own word
	Table   []Event  // what the table holds at the end
	Records []Record // what Kafka holds at the end, in offset order within each partition
	Audits  []Audit

	// Deletes says that the relay settles by deleting, so an event that is gone from the table was published.
	Deletes bool
	// Ordered says whether id order is promised for an event among those of its topic and key; nil means all.
	Ordered func(Event) bool
	// Start is when the run began. No record may carry an older time. Zero leaves that unchecked.
	Start time.Time
}
