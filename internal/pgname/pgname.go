// Package pgname reads and quotes names of PostgreSQL tables and schemas, so that every statement of the project
// names its objects in full and none depends on the session's search_path.
package pgname

import (
	"errors"
	"fmt"
	"strings"
)

// maxBytes is the longest identifier that PostgreSQL keeps (NAMEDATALEN - 1); it cuts longer ones without an error,
// so two long names could silently become one.
const maxBytes = 63

// Table is a schema-qualified table name, unquoted.
type Table struct {
	Schema, Name string
}

// String returns the name quoted, ready to stand in SQL: "public"."outbox_event".
func (t Table) String() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Quote returns one identifier quoted.
func Quote(ident string) string { return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"` }

// ParseTable reads a table name as it stands in SQL: parts are split by a dot, an unquoted part is folded to lower
// case, a quoted one is taken as it is. A name without a schema belongs to public, whatever the search_path says.
func ParseTable(s string) (Table, error) {
	parts, err := split(s)
	if err != nil {
		return Table{}, fmt.Errorf("table name %q: %w", s, err)
	}
	switch len(parts) {
	case 1:
		return Table{Schema: "public", Name: parts[0]}, nil
	case 2:
		return Table{Schema: parts[0], Name: parts[1]}, nil
	}
	return Table{}, fmt.Errorf("table name %q: want table or schema.table, each part quoted where it holds a dot", s)
}

// ParseSchema reads a single schema name by the same rules.
func ParseSchema(s string) (string, error) {
	parts, err := split(s)
	if err != nil {
		return "", fmt.Errorf("schema name %q: %w", s, err)
	}
	if len(parts) != 1 {
		return "", fmt.Errorf("schema name %q: want one name, quoted where it holds a dot", s)
	}
	return parts[0], nil
}

func split(s string) ([]string, error) {
	var parts []string
	for rest := s; ; {
		part, after, err := next(rest)
		if err != nil {
			return nil, err
		}
		if len(part) > maxBytes {
			return nil, fmt.Errorf("part %q has %d bytes, PostgreSQL keeps %d", part, len(part), maxBytes)
		}
		parts = append(parts, part)
		if after == "" {
			return parts, nil
		}
		rest = after[1:]
	}
}

// next takes one part off the front; after is empty or begins with the dot.
func next(s string) (part, after string, err error) {
	if !strings.HasPrefix(s, `"`) {
		part, after = s, ""
		if i := strings.IndexByte(s, '.'); i >= 0 {
			part, after = s[:i], s[i:]
		}
		if part == "" {
			return "", "", errors.New("a part is empty")
		}
		for i, r := range part {
			letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127
			if !letter && (i == 0 || r != '$' && (r < '0' || r > '9')) {
				return "", "", fmt.Errorf("%q needs double quotes because of %q", part, r)
			}
		}
		return strings.ToLower(part), after, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == 0:
			return "", "", errors.New("a NUL byte can't stand in a name")
		case s[i] != '"':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		default:
			if b.Len() == 0 {
				return "", "", errors.New("a part is empty")
			}
			if after = s[i+1:]; after != "" && after[0] != '.' {
				return "", "", fmt.Errorf("unexpected %q after the closing quote", after)
			}
			return b.String(), after, nil
		}
	}
	return "", "", errors.New("a closing double quote is missing")
}
