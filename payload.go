package posthaste

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// occurredAtFormat is RFC 3339 with microseconds; the time is in UTC.
const occurredAtFormat = "2006-01-02T15:04:05.000000Z07:00"

// document is a payload that was looked through.
type document struct {
	text    []byte
	printed int      // bytes of the text as PostgreSQL prints it
	has     envelope // what it says itself of the members that the writer adds
}

// readPayload turns the payload into text and checks it. Errors wrap a sentinel of this package.
func readPayload(payload any) (doc document, err error) {
	raw := true
	switch p := payload.(type) {
	case nil:
		return doc, fmt.Errorf("%w: give an object, struct{}{} for one without business fields", ErrEmpty)
	case json.RawMessage:
		doc.text = p
	case []byte:
		doc.text = p
	default:
		raw = false
		// An Encoder, since Marshal writes <, > and & in six bytes each.
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(payload); err != nil {
			return doc, fmt.Errorf("%w: %w", ErrInvalidJSON, err)
		}
		doc.text = b.Bytes()
	}
	s := jsonScanner{text: doc.text, member: doc.has.take}
	if err := s.scan(); err != nil {
		return doc, err
	}
	// For a byte of a Go string that is not UTF-8, encoding/json writes the escape \ufffd and returns no error. A
	// genuine U+FFFD it writes as the character itself.
	if s.replaced && !raw {
		return doc, fmt.Errorf("%w: encoding/json had to replace a part of a string", ErrInvalidUTF8)
	}
	doc.printed = s.printed
	return doc, nil
}

// envelope is what a payload itself says of the members that the writer adds: raw JSON values, nil where absent.
type envelope [memberCount][]byte

func (v *envelope) take(key, value []byte) {
	for i, name := range memberNames {
		if string(key) == name {
			v[i] = value
		}
	}
}

// adopt fills in what the event leaves open from what its payload says.
func (v *envelope) adopt(e *Event) {
	if e.ID == uuid.Nil && v[memberEventID] != nil {
		e.ID, _ = uuid.Parse(text(v[memberEventID]))
	}
	if e.OccurredAt.IsZero() && v[memberOccurredAt] != nil {
		e.OccurredAt, _ = time.Parse(time.RFC3339, text(v[memberOccurredAt]))
	}
}

// contradiction names the first member by which the payload says something else than the event, if there is one.
func (v *envelope) contradiction(values *[memberCount]string, occurredAt time.Time) error {
	for i, raw := range v {
		if raw == nil || text(raw) == values[i] {
			continue
		}
		want := "the event's"
		switch i {
		case memberEventID:
			want = "the event's id as a UUID in lower case"
		case memberOccurredAt:
			// The same instant may be written with other digits or in another zone.
			t, err := time.Parse(time.RFC3339, text(raw))
			if err == nil && t.Truncate(time.Microsecond).Equal(occurredAt.Truncate(time.Microsecond)) {
				continue
			}
			want = "the event's time by RFC 3339"
		}
		return fmt.Errorf("%w: its member %s is not %s", ErrMismatch, memberNames[i], want)
	}
	return nil
}

// text returns what a scalar says: a string without its quotes, or a number as it stands, so that an aggregate id may
// be a number in the payload. The empty text stands for all else, and is never what an event says.
func text(raw []byte) string {
	switch {
	case raw[0] == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	case raw[0] == '-' || isDigit(raw[0]):
		return string(raw)
	}
	return ""
}

// merge writes the members that the payload lacks in front of its own. The payload's text is copied, never decoded and
// printed again: that is how numbers lose digits. It returns the length that PostgreSQL will print it in, too.
func (doc *document) merge(values *[memberCount]string) (merged string, printed int) {
	printed = doc.printed
	own := bytes.Trim(doc.text, " \t\r\n")
	own = bytes.Trim(own[1:len(own)-1], " \t\r\n") // the scanner has seen the braces

	b := make([]byte, 0, len(own)+256)
	b = append(b, '{')
	for i, name := range memberNames {
		if doc.has[i] != nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
			printed += len(", ")
		}
		b = append(b, `"`+name+`":`...)
		value := len(b)
		b = appendJSONString(b, values[i])
		printed += len(name) + len(`"": `) + len(b) - value
	}
	if len(own) > 0 {
		if len(b) > 1 {
			b = append(b, ',')
			printed += len(", ")
		}
		b = append(b, own...)
	}
	return string(append(b, '}')), printed
}

// appendJSONString writes a string as JSON, escaped exactly as PostgreSQL prints it (escape_json).
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < ' ' {
				b = fmt.Appendf(b, `\u%04x`, c)
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}
