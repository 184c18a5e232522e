package posthaste

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// maxDepth keeps payloads readable for consumers: Jackson stops at 1,000 levels and Python's json near there, and
// PostgreSQL itself fails somewhere beyond 6,000 with its default max_stack_depth.
const maxDepth = 500

// jsonScanner goes over a JSON object once. encoding/json would do for the syntax, but it hides what matters here:
// it drops repeated keys, replaces what is not UTF-8 and lone surrogates, and knows nothing of the limits of jsonb.
// On the way it measures the text that PostgreSQL will print, which is what Kafka gets: never shorter by much, but
// longer by the white space after every comma and colon, and by every exponent (1e1000 is printed with 1,001 digits).
type jsonScanner struct {
	text    []byte
	pos     int
	depth   int
	printed int      // bytes of the text as jsonb prints it, so far
	keys    [][]byte // decoded keys of the objects that are open, innermost last

	member   func(key, value []byte) // told of every member of the outermost object
	replaced bool                    // the escape \ufffd was seen
}

// scan checks that the text is one JSON object that jsonb will take without changing its meaning. Errors wrap a
// sentinel of this package.
func (s *jsonScanner) scan() error {
	if !utf8.Valid(s.text) {
		for {
			r, size := utf8.DecodeRune(s.text[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return s.fail(ErrInvalidUTF8)
			}
			s.pos += size
		}
	}
	s.space()
	if s.peek() != '{' {
		return s.unexpected("the { of an object")
	}
	if err := s.object(); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.text) {
		return s.unexpected("nothing after the object")
	}
	return nil
}

func (s *jsonScanner) value() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || isDigit(c):
		return s.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.text[s.pos:], []byte(word)) {
			s.pos += len(word)
			s.printed += len(word)
			return nil
		}
	}
	return s.unexpected("a value")
}

func (s *jsonScanner) object() error {
	first := len(s.keys)
	var index map[string]struct{} // of this object's keys, once there are many
	err := s.list('}', func() error {
		at := s.pos
		if s.peek() != '"' {
			return s.unexpected("a key in double quotes")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if repeated(&index, s.keys[first:], key) {
			s.pos = at
			return s.fail(ErrRepeatedKey, printable(string(key)))
		}
		s.keys = append(s.keys, key)
		s.space()
		if s.peek() != ':' {
			return s.unexpected("a colon")
		}
		s.pos++
		s.space()
		s.printed += len(": ")
		at = s.pos
		if err = s.value(); err == nil && s.depth == 1 && s.member != nil {
			s.member(key, s.text[at:s.pos])
		}
		return err
	})
	s.keys = s.keys[:first]
	return err
}

// repeated tells whether key is among keys. Small objects are compared one by one, large ones by an index, so that no
// input takes quadratic time.
func repeated(index *map[string]struct{}, keys [][]byte, key []byte) bool {
	const small = 16
	if len(keys) < small {
		return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	if *index == nil {
		*index = make(map[string]struct{}, 4*small)
		for _, k := range keys {
			(*index)[string(k)] = struct{}{}
		}
	}
	_, found := (*index)[string(key)]
	(*index)[string(key)] = struct{}{}
	return found
}

func (s *jsonScanner) array() error { return s.list(']', s.value) }

// list reads what stands between brackets, the opening one being next.
func (s *jsonScanner) list(closing byte, item func() error) error {
	if s.depth++; s.depth > maxDepth {
		return s.fail(ErrTooDeep, fmt.Sprintf("beyond %d levels", maxDepth))
	}
	s.pos++
	s.printed += len("{}")
	s.space()
	if s.peek() == closing {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case closing:
			s.pos++
			s.depth--
			return nil
		case ',':
			s.pos++
			s.printed += len(", ")
			s.space()
		default:
			return s.unexpected("a comma or " + string(closing))
		}
	}
}

func (s *jsonScanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte; 0 at the end, which is no more legal there than anywhere outside a string.
func (s *jsonScanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *jsonScanner) unexpected(wanted string) error {
	if s.pos >= len(s.text) {
		return s.fail(ErrInvalidJSON, "it ends where "+wanted+" was expected")
	}
	r, _ := utf8.DecodeRune(s.text[s.pos:])
	return s.fail(ErrInvalidJSON, fmt.Sprintf("%q where %s was expected", r, wanted))
}

// fail names no more of the payload than a key or a character: it may hold personal data, and errors end in logs.
func (s *jsonScanner) fail(reason error, detail ...string) error {
	if len(detail) == 0 {
		return fmt.Errorf("%w (at byte %d)", reason, s.pos)
	}
	return fmt.Errorf("%w: %s (at byte %d)", reason, detail[0], s.pos)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
