package e2e_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"posthaste.dev/posthaste/e2e/check"
)

// told is what the program of a recipe says of an event that it wrote.
type told struct {
	Committed bool              `json:"committed"`
	EventID   string            `json:"event_id"`
	EventType string            `json:"event_type"`
	Topic     string            `json:"topic"`
	Key       string            `json:"key"`
	Headers   map[string]string `json:"headers"`
	Payload   map[string]any    `json:"payload"`
}

// Services in other languages write with plain SQL; their events arrive like those of ours.
func TestEventsOfOtherLanguagesArrive(t *testing.T) {
	for name, test := range map[string]struct {
		recipe   recipe
		database string
	}{
		"Python":               {pythonRecipe, pg15},
		"Java":                 {javaRecipe, pg15},
		"TypeScript":           {typescriptRecipe, pg15},
		"SQL on PostgreSQL 13": {sqlRecipe, pg13},
		"SQL on PostgreSQL 18": {sqlRecipe, pg18},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, test.database, oneBroker, "order.confirmed")
			program := test.recipe.program(t, "DATABASE_URL="+b.dsn, "SERVICE="+b.unique)
			b.migrate("--headers")
			relay := b.start(b.relay())
			var complaints strings.Builder
			program.Stderr = &complaints
			out, err := program.Output()
			if err != nil {
				t.Fatalf("run %s: %v\n%s", program, err, complaints.String())
			}
			b.drain(15 * time.Second)
			b.stop(relay)
			b.compare(string(out))
		})
	}
}

// compare holds what a program said against the tables and Kafka.
func (b *bed) compare(said string) {
	b.t.Helper()
	// Headers, keys, values and the order of ids are the checker's.
	if err := b.judge(check.History{}).Err(); err != nil {
		b.t.Error(err)
	}
	arrived := map[string]check.Record{}
	revisions := map[string]int{} // of each order, as consumers see them
	for _, r := range b.readTopics() {
		arrived[r.Header("event_id")] = r
		var payload struct{ Revision int }
		if err := json.Unmarshal(r.Value, &payload); err != nil {
			b.t.Fatal(err)
		}
		// Without the lock on the order, revisions would repeat; with a roll-back that left its event, too.
		if payload.Revision != revisions[string(r.Key)]+1 {
			b.t.Errorf("order %s: revision %d comes after %d", r.Key, payload.Revision, revisions[string(r.Key)])
		}
		revisions[string(r.Key)] = payload.Revision
	}

	committed, rolledBack := 0, 0
	for line := range strings.Lines(said) {
		var event told
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			b.t.Fatalf("the program said %q: %v", line, err)
		}
		record, ok := arrived[event.EventID]
		switch {
		case event.Committed:
			committed++
			event.compare(b.t, record)
		case ok:
			b.t.Errorf("event %s was rolled back and arrived", event.EventID)
		default:
			rolledBack++
		}
	}
	if committed == 0 || rolledBack == 0 || committed != len(arrived) {
		b.t.Errorf("%d events committed and %d rolled back, %d arrived", committed, rolledBack, len(arrived))
	}
	var wrong int
	err := b.db.QueryRow(b.ctx, `
		select count(*) from example_order o
		where revision <> (select count(*) from outbox_event where partition_key = o.id::text)`).Scan(&wrong)
	if err != nil || wrong > 0 {
		b.t.Errorf("%d orders have changes without an event or events without a change (%v)", wrong, err)
	}
}

// compare holds the record against what its writer said.
func (e told) compare(t *testing.T, r check.Record) {
	t.Helper()
	var payload map[string]any
	if err := json.Unmarshal(r.Value, &payload); err != nil {
		t.Errorf("event %s did not arrive as JSON: %v", e.EventID, err)
		return
	}
	if !reflect.DeepEqual(payload, e.Payload) {
		t.Errorf("payload is %v, want %v", payload, e.Payload)
	}
	for what, pair := range map[string][2]any{
		"topic":                     {r.Topic, e.Topic},
		"key":                       {string(r.Key), e.Key},
		"event type":                {r.Header("event_type"), e.EventType},
		"traceparent":               {r.Header("traceparent"), e.Headers["traceparent"]},
		"event_id in the payload":   {payload["event_id"], e.EventID},
		"event_type in the payload": {payload["event_type"], e.EventType},
		"aggregate's id":            {r.Header("aggregate_id"), e.Key},
	} {
		if pair[0] != pair[1] || pair[0] == "" {
			t.Errorf("event %s: %s is %q, want %q", e.EventID, what, pair[0], pair[1])
		}
	}
	occurredAt, _ := payload["occurred_at"].(string)
	at, err := time.Parse(time.RFC3339, occurredAt)
	if err != nil {
		t.Errorf("event %s: %v", e.EventID, err)
	}
	checkUUID7(t, e.EventID, at)
}

// checkUUID7 wants a UUID of version 7 (RFC 9562) that was made at about this time.
func checkUUID7(t *testing.T, text string, at time.Time) {
	t.Helper()
	id, err := uuid.Parse(text)
	if err != nil {
		t.Error(err)
		return
	}
	var ms int64
	for _, octet := range id[:6] {
		ms = ms<<8 | int64(octet)
	}
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 || time.UnixMilli(ms).Sub(at).Abs() > time.Minute {
		t.Errorf("event id %s is a UUID of version %d, %s, of %s; want version 7, RFC 4122 and about %s",
			text, id.Version(), id.Variant(), time.UnixMilli(ms).UTC(), at)
	}
}
