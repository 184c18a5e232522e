package posthaste

import "bytes"

// The limits of PostgreSQL's numeric, in which jsonb keeps every number (documentation, "Numeric Types").
const (
	maxIntegerDigits  = 131072
	maxFractionDigits = 16383
)

// number reads a number and measures how numeric prints it: without an exponent, all digits of the fraction kept.
func (s *jsonScanner) number() error {
	begin := s.pos
	negative := s.peek() == '-'
	if negative {
		s.pos++
	}
	integer := s.digits()
	if len(integer) == 0 {
		return s.unexpected("a digit")
	}
	if integer[0] == '0' && len(integer) > 1 {
		s.pos = begin
		return s.fail(ErrInvalidJSON, "a number with a leading zero")
	}
	var fraction []byte
	if s.peek() == '.' {
		s.pos++
		if fraction = s.digits(); len(fraction) == 0 {
			return s.unexpected("a digit")
		}
	}
	exponent := 0
	if s.peek()|0x20 == 'e' {
		s.pos++
		sign := 1
		switch s.peek() {
		case '-':
			sign = -1
			s.pos++
		case '+':
			s.pos++
		}
		digits := s.digits()
		if len(digits) == 0 {
			return s.unexpected("a digit")
		}
		for _, d := range digits {
			// Stops counting far beyond the limits, long before the sum could overflow.
			exponent = min(exponent*10+int(d-'0'), 1e9)
		}
		exponent *= sign
	}

	point := len(integer) + exponent // where the decimal point stands among all digits
	scale := max(0, len(fraction)-exponent)
	if point > maxIntegerDigits || scale > maxFractionDigits {
		s.pos = begin
		return s.fail(ErrNumberRange)
	}
	whole, zero := integerDigits(integer, fraction, point)
	s.printed += whole
	if scale > 0 {
		s.printed += len(".") + scale
	}
	if negative && !zero {
		s.printed += len("-")
	}
	return nil
}

func (s *jsonScanner) digits() []byte {
	begin := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.text[begin:s.pos]
}

// integerDigits counts what is printed left of the decimal point, which is at least a zero, and tells whether the whole
// number is zero.
func integerDigits(integer, fraction []byte, point int) (count int, zero bool) {
	leading := len(integer) - len(bytes.TrimLeft(integer, "0"))
	if leading == len(integer) {
		leading += len(fraction) - len(bytes.TrimLeft(fraction, "0"))
		if leading == len(integer)+len(fraction) {
			return 1, true
		}
	}
	return max(1, point-leading), false
}
