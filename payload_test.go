package posthaste

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

var testValues = [memberCount]string{
	memberEventID:       "0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d",
	memberEventType:     "order.confirmed.v1",
	memberOccurredAt:    "2026-01-02T03:04:05.000006Z",
	memberAggregateType: "Order",
	memberAggregateID:   `o"1`,
}

const testEnvelope = `"event_id":"0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d","event_type":"order.confirmed.v1",` +
	`"occurred_at":"2026-01-02T03:04:05.000006Z","aggregate_type":"Order","aggregate_id":"o\"1"`

func TestMerge(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:             `{` + testEnvelope + `}`,
		" {\n} ":         `{` + testEnvelope + `}`,
		" { \"a\" : 1 }": `{` + testEnvelope + `,"a" : 1}`,
		// Numbers keep every digit, strings their own way of escaping.
		`{"n":[9007199254740993,1.10,1e400],"s":"<\u00e9\/>"}`: `{` + testEnvelope +
			`,"n":[9007199254740993,1.10,1e400],"s":"<\u00e9\/>"}`,
		// A member that is there already is not added; one of the same name further in is not it.
		`{"event_type":"order.confirmed.v1","x":{"event_id":1}}`: `{` +
			strings.Replace(testEnvelope, `"event_type":"order.confirmed.v1",`, "", 1) +
			`,"event_type":"order.confirmed.v1","x":{"event_id":1}}`,
		`{` + testEnvelope + `}`:          `{` + testEnvelope + `}`,
		`{` + testEnvelope + `,"a":null}`: `{` + testEnvelope + `,"a":null}`,
	} {
		doc, err := readPayload(json.RawMessage(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, _ := doc.merge(&testValues); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", in, got, want)
		}
	}
}

// FuzzMerge: the merged text is one object that jsonb takes, it is measured as a scan of it would, and it has exactly
// the payload's members and those of the event.
func FuzzMerge(f *testing.F) {
	for _, seed := range scanSeeds {
		f.Add([]byte(seed), "o-1")
	}
	f.Add([]byte(`{"aggregate_id":"x","event_id":null}`), "\u2028\x7f\\\"")
	f.Add([]byte(`{"n":-1.5E-7}`), "\x01\n")
	f.Fuzz(func(t *testing.T, payload []byte, aggregateID string) {
		doc, err := readPayload(payload)
		if err != nil || !utf8.ValidString(aggregateID) || strings.Contains(aggregateID, "\x00") {
			t.Skip()
		}
		values := testValues
		values[memberAggregateID] = aggregateID
		merged, printed := doc.merge(&values)
		s := jsonScanner{text: []byte(merged)}
		if err := s.scan(); err != nil {
			t.Fatalf("%q merged into %q: %v", payload, merged, err)
		}
		if s.printed != printed {
			t.Fatalf("%q: measured %d, want %d", merged, printed, s.printed)
		}
		want := members(t, payload)
		for i, name := range memberNames {
			if _, ok := want[name]; !ok {
				value, _ := json.Marshal(values[i])
				want[name] = string(value)
			}
		}
		if got := members(t, []byte(merged)); !maps.EqualFunc(got, want, sameJSON) {
			t.Fatalf("%q has members %q, want %q", merged, got, want)
		}
	})
}

func members(t *testing.T, object []byte) map[string]string {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(object, &raw); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, value := range raw {
		texts[name] = string(value)
	}
	return texts
}

// sameJSON compares values with numbers as they are written.
func sameJSON(a, b string) bool {
	decode := func(s string) (v any) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return s
		}
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

type textMarshaler string

func (m textMarshaler) MarshalJSON() ([]byte, error) { return []byte(m), nil }

func TestReadPayload(t *testing.T) {
	type business struct {
		Note string `json:"note"`
	}
	for _, c := range []struct {
		payload any
		text    string // what is written
		err     error
	}{
		{business{"a<b & c>d"}, `{"note":"a<b & c>d"}`, nil},
		{&business{"\ufffd"}, "{\"note\":\"\ufffd\"}", nil},
		{map[string]any{"n": json.Number("1.10")}, `{"n":1.10}`, nil},
		{map[string]int(nil), ``, ErrInvalidJSON},
		{struct{}{}, `{}`, nil},
		{[]byte(`{"a":1}`), `{"a":1}`, nil},
		{json.RawMessage(`{"a":"\ufffd"}`), `{"a":"\ufffd"}`, nil},
		{business{`\ufffd`}, `{"note":"\\ufffd"}`, nil},
		{business{"bad \xff byte"}, ``, ErrInvalidUTF8},
		{map[string]any{"bad \xff": 1}, ``, ErrInvalidUTF8},
		{business{"nul \x00"}, ``, ErrNUL},
		{textMarshaler(`{"a":1,"a":2}`), ``, ErrRepeatedKey},
		{nil, ``, ErrEmpty},
		{(*business)(nil), ``, ErrInvalidJSON},
		{json.RawMessage(nil), ``, ErrInvalidJSON},
		{"text", ``, ErrInvalidJSON},
		{[]int{1}, ``, ErrInvalidJSON},
		{make(chan int), ``, ErrInvalidJSON},
	} {
		doc, err := readPayload(c.payload)
		if !errors.Is(err, c.err) || err == nil && string(bytes.TrimSpace(doc.text)) != c.text {
			t.Errorf("readPayload(%#v) = %s, %v; want %s, %v", c.payload, doc.text, err, c.text, c.err)
		}
	}
}

func TestPayloadThatHasTheMembers(t *testing.T) {
	id := uuid.MustParse(testValues[memberEventID])
	occurredAt := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
	for _, c := range []struct {
		payload string
		event   Event // its fields that are set
		ok      bool
	}{
		{`{"event_id":"0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d"}`, Event{ID: id}, true},
		{`{"event_id":"0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d"}`, Event{}, true}, // adopted
		{`{"event_id":"0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1e"}`, Event{ID: id}, false},
		{`{"event_id":"0199A3C1-7D5E-7B1C-9D39-2F4E6A8B0C1D"}`, Event{}, false},
		{`{"event_id":"00000000-0000-0000-0000-000000000000"}`, Event{}, false},
		{`{"event_id":"x"}`, Event{}, false},
		{`{"event_id":null}`, Event{}, false},
		{`{"occurred_at":"2026-01-02T03:04:05.000006Z"}`, Event{OccurredAt: occurredAt}, true},
		{`{"occurred_at":"2026-01-02T04:04:05.000006789+01:00"}`, Event{OccurredAt: occurredAt}, true},
		{`{"occurred_at":"2026-01-02T03:04:05.000006+00:00"}`, Event{}, true}, // adopted
		{`{"occurred_at":"2026-01-02T03:04:06Z"}`, Event{OccurredAt: occurredAt}, false},
		{`{"occurred_at":"yesterday"}`, Event{}, false},
		{`{"occurred_at":1767323045}`, Event{}, false},
		{`{"event_type":"order.confirmed.v1","aggregate_type":"Order","aggregate_id":"42"}`, Event{}, true},
		{`{"aggregate_id":42}`, Event{}, true},
		{`{"aggregate_id":42.0}`, Event{}, false},
		{`{"aggregate_id":{"id":42}}`, Event{}, false},
		{`{"aggregate_id":""}`, Event{}, false},
		{`{"event_type":"OrderConfirmed.v1"}`, Event{}, false},
		{`{"aggregate_type":"order"}`, Event{}, false},
	} {
		e := c.event
		e.Type, e.AggregateID, e.Payload = "order.confirmed.v1", "42", json.RawMessage(c.payload)
		records, err := testWriter(t, Config{}).check(t.Context(), []Event{e})
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrMismatch) {
			t.Errorf("%s with %+v: %v", c.payload, c.event, err)
			continue
		}
		if err != nil {
			continue
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(records[0].payload), &got); err != nil {
			t.Fatal(err)
		}
		if got["event_id"] != records[0].id.String() {
			t.Errorf("%s: the payload has event id %v, the column %s", c.payload, got["event_id"], records[0].id)
		}
	}
}
