package settings

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// brokers reads a list by one rule: pieces between commas, blanks around them ignored, each host:port. Anything else is
// refused by the piece, since clients that guess have been seen to use the first broker only, or none. In the YAML file
// the pieces may stand in a list of its own.
func brokers(field *[]string) value {
	fill := func(pieces []string) error {
		var list []string
		for _, piece := range pieces {
			piece = strings.TrimSpace(piece)
			if err := checkBroker(piece); err != nil {
				return fmt.Errorf("want host:port, separated by commas: piece %q %w", piece, err)
			}
			list = append(list, piece)
		}
		*field = list
		return nil
	}
	return value{
		form:  "host:port, separated by commas",
		parse: func(s string) error { return fill(strings.Split(s, ",")) },
		list: func(node *yaml.Node) error {
			var pieces []string
			for _, item := range node.Content {
				piece, err := plain(item, value{form: "host:port"}, false)
				if err != nil {
					return atLine{item.Line, err}
				}
				pieces = append(pieces, piece)
			}
			if len(pieces) == 0 {
				return errors.New("want at least one host:port")
			}
			return fill(pieces)
		},
		get: func() any {
			if len(*field) == 0 {
				return nil
			}
			return *field
		},
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
