package posthaste

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string, the opening quote being next, and returns it decoded.
func (s *jsonScanner) str() ([]byte, error) {
	begin := s.pos
	escaped := false
	s.printed += len(`""`)
	for s.pos++; s.pos < len(s.text); {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			if !escaped {
				return s.text[begin+1 : s.pos-1], nil
			}
			var decoded string
			if err := json.Unmarshal(s.text[begin:s.pos], &decoded); err != nil {
				return nil, s.fail(ErrInvalidJSON, err.Error())
			}
			return []byte(decoded), nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c == 0:
			return nil, s.fail(ErrNUL)
		case c < ' ':
			return nil, s.fail(ErrInvalidJSON, "a control character in a string must be escaped")
		default:
			s.pos++
			s.printed++
		}
	}
	return nil, s.unexpected("the end of a string")
}

// escape reads one escape sequence. Escapes are resolved by jsonb and printed anew, where they must be.
func (s *jsonScanner) escape() error {
	at := s.pos
	s.pos++
	c := s.peek()
	s.pos++
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		s.printed += 2
		return nil
	case '/':
		s.printed++
		return nil
	case 'u':
	default:
		s.pos = at
		return s.fail(ErrInvalidJSON, "an unknown escape sequence")
	}
	r, ok := s.hex4()
	if ok && utf16.IsSurrogate(r) {
		var low rune
		if bytes.HasPrefix(s.text[s.pos:], []byte(`\u`)) {
			s.pos += 2
			low, ok = s.hex4()
		}
		if r = utf16.DecodeRune(r, low); ok && r == utf8.RuneError {
			s.pos = at
			return s.fail(ErrInvalidUTF8, "half of a surrogate pair stands alone")
		}
	}
	switch {
	case !ok:
		s.pos = at
		return s.fail(ErrInvalidJSON, `\u wants four hexadecimal digits`)
	case r == 0:
		s.pos = at
		return s.fail(ErrNUL)
	case r == '"', r == '\\', r == '\b', r == '\f', r == '\n', r == '\r', r == '\t':
		s.printed += 2
	case r < ' ':
		s.printed += len(`\u0001`)
	default:
		s.printed += utf8.RuneLen(r)
		s.replaced = s.replaced || r == utf8.RuneError
	}
	return nil
}

func (s *jsonScanner) hex4() (r rune, ok bool) {
	if len(s.text)-s.pos < 4 {
		return 0, false
	}
	for _, c := range s.text[s.pos : s.pos+4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	s.pos += 4
	return r, true
}
