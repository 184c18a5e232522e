package kafka

import (
	"bytes"
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
	id := e.EventID.String()
	headers := make([]kgo.RecordHeader, 0, 8)
	headers = append(headers, kgo.RecordHeader{Key: HeaderEventID, Value: []byte(id)})
	for _, h := range [...]struct{ name, value string }{
		{HeaderEventType, e.EventType}, {HeaderAggregateType, e.AggregateType}, {HeaderAggregateID, e.AggregateID},
	} {
		if h.value != "" {
			headers = append(headers, kgo.RecordHeader{Key: h.name, Value: []byte(h.value)})
		}
	}
	if !e.CreatedAt.IsZero() {
		created := e.CreatedAt.UTC().AppendFormat(nil, createdAtFormat)
		headers = append(headers, kgo.RecordHeader{Key: HeaderCreatedAt, Value: created})
	}
	headers = append(headers, kgo.RecordHeader{Key: HeaderOutboxID, Value: strconv.AppendInt(nil, e.ID, 10)})
	if e.Headers != nil {
		var err error
		if headers, err = appendHeaders(headers, e.Headers); err != nil {
			return nil, fmt.Errorf("headers of event %s: %w; the column takes one object of string values", id, err)
		}
	}
	return &kgo.Record{Topic: e.Topic, Key: []byte(e.Key), Value: e.Payload, Headers: headers}, nil
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
