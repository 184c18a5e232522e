package posthaste_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/posthastetest"
)

// A table of others has other names, and fewer columns: every way of writing knows them.
func TestWriteUnderOtherNames(t *testing.T) {
	t.Parallel()
	mapping := map[string]string{"id": "seq", "event_id": `"Event,ID"`, "payload": "body",
		"partition_key":  "aggregate_id",
		"aggregate_type": "", "created_at": "", "headers": "meta", "published_at": `"sent"""`}
	outbox := posthastetest.New(t, posthastetest.Columns(mapping), posthastetest.Headers())
	for _, strictly := range []bool{false, true} {
		w := newWriter(t, outbox, headers, func(c *posthaste.Config) { c.Columns, c.Strict = mapping, strictly })
		for _, way := range ways() {
			e := confirmed(fmt.Sprint(way.name, strictly))
			e.ID, e.Headers = uuid.New(), map[string]string{"tenant": "x"}
			if err := way.write(t.Context(), outbox, w, e); err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
			outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{Type: e.Type, ID: e.ID, Key: e.AggregateID,
				AggregateID: e.AggregateID, Payload: map[string]any{"event_id": e.ID.String()}, Headers: e.Headers})
			if err := way.write(t.Context(), outbox, w, e); !errors.Is(err, posthaste.ErrDuplicateEvent) {
				t.Errorf("%s: the same event again: %v", way.name, err)
			}
		}
	}
	existing := posthastetest.Existing(t, outbox.Table, posthastetest.Columns(mapping))
	existing.RequireNone(t, outbox.Pool, posthastetest.Want{Key: "nobody"})

	// The key stands in the aggregate's column, so it can be no other.
	e := confirmed("o-1")
	e.Key = "customer-7"
	w := newWriter(t, outbox, func(c *posthaste.Config) { c.Columns = mapping })
	err := write(t.Context(), outbox, w, e)
	if !errors.Is(err, posthaste.ErrMismatch) || !strings.Contains(err.Error(), "partition_key") {
		t.Errorf("a key of its own: %v", err)
	}
}

func TestNewWriterRefusesMappings(t *testing.T) {
	types, err := posthaste.NewRegistry(orderTypes...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = posthaste.NewWriter(posthaste.Config{Types: types, Headers: true,
		Columns: map[string]string{"event": "x", "topic": "", "payload": "a-b"}})
	for _, want := range []string{`no column "event"`, "no outbox can be without topic", `"a-b" needs double quotes`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	_, err = posthaste.NewWriter(posthaste.Config{Types: types, Headers: true,
		Columns: map[string]string{"headers": ""}})
	if err == nil || !strings.Contains(err.Error(), "Columns says that the table has no headers") {
		t.Errorf("%v", err)
	}
}
