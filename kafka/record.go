package kafka

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/wire"
	"posthaste.dev/posthaste/relay"
)

// The headers that every record carries, as far as its table has their columns. The headers column of an event can't
// override them.
const (
	HeaderEventID       = wire.EventID
	HeaderEventType     = wire.EventType
	HeaderAggregateType = wire.AggregateType
	HeaderAggregateID   = wire.AggregateID
	HeaderCreatedAt     = wire.CreatedAt // RFC 3339, UTC
	HeaderOutboxID      = wire.OutboxID  // the row's id, which grows along the events of a key
)

// createdAtFormat is RFC 3339 with the microseconds that PostgreSQL keeps.
const createdAtFormat = "2006-01-02T15:04:05.999999Z07:00"

// newRecord maps an event. The value is the payload as PostgreSQL prints it. The record's time is left to the client,
// the time of sending: a record with its event's own time, older than the topic's retention, would be acknowledged
// and then deleted.
func newRecord(e *relay.Event) (*kgo.Record, error) {
	const longest = 36 + len(createdAtFormat) + 20 // of id, time and number
	w := recordWriter{
		values: make([]byte, 0,
			longest+len(e.EventType)+len(e.AggregateType)+len(e.AggregateID)+len(e.Key)),
		headers: make([]kgo.RecordHeader, 0, 6),
	}
	w.add(HeaderEventID, appendUUID(w.values, e.EventID))
	w.addText(HeaderEventType, e.EventType)
	w.addText(HeaderAggregateType, e.AggregateType)
	w.addText(HeaderAggregateID, e.AggregateID)
	if !e.CreatedAt.IsZero() {
		w.add(HeaderCreatedAt, e.CreatedAt.UTC().AppendFormat(w.values, createdAtFormat))
	}
	w.add(HeaderOutboxID, strconv.AppendInt(w.values, e.ID, 10))
	if e.Headers != nil {
		var err error
		if w.headers, err = appendHeaders(w.headers, e.Headers); err != nil {
			return nil, fmt.Errorf("headers of event %s: %w; the column takes one object of string values",
				e.EventID, err)
		}
	}
	return &kgo.Record{Topic: e.Topic, Key: w.take(append(w.values, e.Key...)), Value: e.Payload, Headers: w.headers},
		nil
}

// recordWriter keeps all short values of a record in one piece of memory: one for each was most of what the relay
// allocated.
type recordWriter struct {
	values  []byte
	headers []kgo.RecordHeader
}

// take takes over what was appended to the values, and returns that alone.
func (w *recordWriter) take(values []byte) []byte {
	one := values[len(w.values):len(values):len(values)]
	w.values = values
	return one
}

func (w *recordWriter) add(name string, values []byte) {
	w.headers = append(w.headers, kgo.RecordHeader{Key: name, Value: w.take(values)})
}

// addText leaves out what the table does not have.
func (w *recordWriter) addText(name, value string) {
	if value != "" {
		w.add(name, append(w.values, value...))
	}
}

func appendUUID(to []byte, id [16]byte) []byte {
	for i, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, part)
	}
	return to
}

var errNoObject = errors.New("not an object")

// appendHeaders adds the members of a JSON object of strings, in their order.
func appendHeaders(headers []kgo.RecordHeader, object []byte) ([]kgo.RecordHeader, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := d.Token()
		if err != nil {
			return nil, err
		}
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("the value of %q is not a string", name)
		}
		if !wire.Reserved(name.(string)) {
			headers = append(headers, kgo.RecordHeader{Key: name.(string), Value: []byte(text)})
		}
	}
	return headers, nil
}

// leastSize is a bound from below of the batch that holds this record alone, uncompressed.
func leastSize(r *kgo.Record) int {
	n := wire.BatchOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
