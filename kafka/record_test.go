package kafka

import (
	"testing"

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
