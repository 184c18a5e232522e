package pgname

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// columns are the usual names of an outbox table's columns, in the table's order; headers is the optional last one.
var columns = [...]string{"id", "event_id", "aggregate_type", "aggregate_id", "event_type", "payload", "topic",
	"partition_key", "created_at", "published_at", "headers"}

// A table may be without these: the header of that name is then left out of the records.
var optional = []string{"aggregate_type", "aggregate_id", "event_type", "created_at", "headers"}

// Two of these may share one column, as where the key of an event is always its aggregate's id.
var shareable = []string{"aggregate_type", "aggregate_id", "event_type", "topic", "partition_key"}

// ColumnNames returns the usual names, in the table's order.
func ColumnNames() []string { return slices.Clone(columns[:]) }

// Optional tells whether a table may be without the column.
func Optional(column string) bool { return slices.Contains(optional, column) }

// Columns says which of a table's columns stand for the usual ones. The zero value is the usual names. Two of them may
// be compared by ==.
type Columns struct {
	given [len(columns)]given
}

type given struct {
	set  bool
	name string // unquoted; "": the table has no such column
}

// ParseColumns reads a mapping as it stands in a setting: usual=other pairs between commas, the other name as in SQL,
// or nothing after the equals sign where the table has no such column.
func ParseColumns(s string) (Columns, error) {
	mapping := map[string]string{}
	var mistakes []error
	for _, pair := range splitList(s) {
		usual, other, ok := strings.Cut(pair, "=")
		usual, other = strings.TrimSpace(usual), strings.TrimSpace(other)
		_, twice := mapping[usual]
		switch {
		case !ok:
			mistakes = append(mistakes,
				fmt.Errorf("%q is no pair: want usual=other, such as event_id=uuid", strings.TrimSpace(pair)))
		case twice:
			mistakes = append(mistakes, fmt.Errorf("%s is given twice", usual))
		default:
			mapping[usual] = other
		}
	}
	c, err := MapColumns(mapping)
	return c, errors.Join(append(mistakes, err)...)
}

// splitList splits at the commas that stand outside double quotes. An empty list has no pieces.
func splitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	})
}

// MapColumns is ParseColumns for a mapping in Go. All mistakes come back at once.
func MapColumns(mapping map[string]string) (Columns, error) {
	var c Columns
	var mistakes []error
	for _, usual := range slices.Sorted(maps.Keys(mapping)) {
		i := slices.Index(columns[:], usual)
		other := mapping[usual]
		switch {
		case i < 0:
			mistakes = append(mistakes, fmt.Errorf("an outbox has no column %q; its columns are %s", usual,
				strings.Join(columns[:], ", ")))
		case other == "" && !Optional(usual):
			mistakes = append(mistakes,
				fmt.Errorf("no outbox can be without %s: name the column that stands for it", usual))
		case other == "":
			c.given[i] = given{set: true}
		default:
			parts, err := split(other)
			if err == nil && len(parts) != 1 {
				err = errors.New("want one name, quoted where it holds a dot")
			}
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s=%s: %w", usual, other, err))
				continue
			}
			c.given[i] = given{true, parts[0]}
		}
	}
	for later, first := range c.Shared() {
		if !slices.Contains(shareable, first) || !slices.Contains(shareable, later) {
			mistakes = append(mistakes,
				fmt.Errorf("column %s can't stand for both %s and %s", c.Name(first), first, later))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return Columns{}, err
	}
	return c, nil
}

// Name returns the name of the column that stands for a usual one, unquoted, or "" where the table has none.
func (c Columns) Name(usual string) string {
	switch i := slices.Index(columns[:], usual); {
	case i < 0:
		return ""
	case c.given[i].set:
		return c.given[i].name
	}
	return usual
}

// SQL returns the name as it stands in SQL: the usual ones as they are, others quoted.
func (c Columns) SQL(usual string) string {
	name := c.Name(usual)
	if name == "" || name == usual {
		return name
	}
	return Quote(name)
}

// Has tells whether the table has a column for the usual one.
func (c Columns) Has(usual string) bool { return c.Name(usual) != "" }

// Without returns the mapping of a table that lacks these columns too.
func (c Columns) Without(usual ...string) Columns {
	for i, name := range columns {
		if slices.Contains(usual, name) {
			c.given[i] = given{set: true}
		}
	}
	return c
}

// Shared returns each usual column whose place an earlier one has already, with that one.
func (c Columns) Shared() map[string]string {
	var shared map[string]string
	for i, later := range columns {
		for _, first := range columns[:i] {
			if c.Has(later) && c.Name(first) == c.Name(later) {
				if shared == nil {
					shared = map[string]string{}
				}
				shared[later] = first
				break
			}
		}
	}
	return shared
}

// String returns the mapping as ParseColumns reads it, "" where it is the usual one.
func (c Columns) String() string {
	var pairs []string
	for i, usual := range columns {
		if c.given[i].set && c.given[i].name != usual {
			pairs = append(pairs, usual+"="+c.SQL(usual))
		}
	}
	return strings.Join(pairs, ",")
}

// Fill replaces {{id}}, {{event_id}} and so on in a statement, and what the pairs name. It does all at once: filled in
// one after the other, a name that holds such signs would be taken for a place to fill.
func (c Columns) Fill(sql string, pairs ...string) string {
	for _, usual := range columns {
		pairs = append(pairs, "{{"+usual+"}}", c.SQL(usual))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}
