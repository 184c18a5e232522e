package settings

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of values. Each returns a parser that fills one field, or says what it wants instead. Zero is refused
// where it has no meaning of its own: in package relay a zero stands for the default, and a value given must never
// turn into another. Ranges are judged there.

func text(field *string) func(string) error {
	return func(s string) error {
		*field = s
		return nil
	}
}

func choice[T ~string](field *T, allowed ...T) func(string) error {
	return func(s string) error {
		if !slices.Contains(allowed, T(s)) {
			var list []string
			for _, a := range allowed {
				list = append(list, string(a))
			}
			last := len(list) - 1
			return fmt.Errorf("want %s or %s", strings.Join(list[:last], ", "), list[last])
		}
		*field = T(s)
		return nil
	}
}

func onOff(field *bool) func(string) error {
	return func(s string) error {
		if s != "on" && s != "off" {
			return errors.New("want on or off")
		}
		*field = s == "on"
		return nil
	}
}

func positive(field *int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return errors.New("want a whole number above 0")
		}
		*field = n
		return nil
	}
}

func lanes(field *int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1024 || n&(n-1) != 0 {
			return errors.New("want a power of two from 1 to 1024")
		}
		*field = n
		return nil
	}
}

func duration(field *time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return errors.New("want a duration with its unit, such as 500ms, 5s or 2m")
		}
		*field = d
		return nil
	}
}

func seconds(field *time.Duration) func(string) error {
	return func(s string) error {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || f < 1e-9 || f > 1e9 {
			return errors.New("want a number of seconds above 0, such as 0.5")
		}
		*field = time.Duration(f * float64(time.Second))
		return nil
	}
}

func address(field *string) func(string) error {
	return func(s string) error {
		if s != "" {
			if _, _, err := splitHostPort(s); err != nil {
				return fmt.Errorf("want host:port or :port, or nothing: %w", err)
			}
		}
		*field = s
		return nil
	}
}

// brokers reads a list by one rule: pieces between commas, blanks around them ignored, each host:port. Anything else is
// refused by the piece, since clients that guess have been seen to use the first broker only, or none.
func brokers(field *[]string) func(string) error {
	return func(s string) error {
		var list []string
		for piece := range strings.SplitSeq(s, ",") {
			piece = strings.TrimSpace(piece)
			if err := checkBroker(piece); err != nil {
				return fmt.Errorf("want host:port, separated by commas: piece %q %w", piece, err)
			}
			list = append(list, piece)
		}
		*field = list
		return nil
	}
}

func checkBroker(piece string) error {
	switch {
	case piece == "":
		return errors.New("is empty")
	case strings.ContainsAny(piece, `"'`):
		return errors.New("has quotes in it, which are part of the value here")
	case strings.Contains(piece, "://"):
		return errors.New("has a protocol, which POSTHASTE_KAFKA_TLS and POSTHASTE_KAFKA_SASL choose")
	case strings.ContainsAny(piece, " \t\r\n"):
		return errors.New("has blanks in it")
	}
	host, _, err := splitHostPort(piece)
	if err == nil && host == "" {
		return errors.New("has no host")
	}
	return err
}

func splitHostPort(s string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(s)
	if err != nil {
		if strings.Contains(s, ":") {
			return "", 0, errors.New("has more colons than one; an IPv6 address stands in brackets, as in [::1]:9092")
		}
		return "", 0, errors.New("has no port")
	}
	port, err = strconv.Atoi(digits)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("has port %q, which is not a number from 1 to 65535", digits)
	}
	if strings.ContainsAny(host, " \t\r\n/@#?") {
		return "", 0, errors.New("has a sign in it that no host has")
	}
	return host, port, nil
}
