package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"posthaste.dev/posthaste/internal/pgname"
)

// The names that stand when nobody sets others.
const (
	DefaultTable  = "public.outbox_event"
	DefaultSchema = "posthaste"
)

// Names says where an outbox stands in its database. Every statement names its objects in full by it, so the
// session's search_path never matters.
type Names struct {
	Table   pgname.Table   // the outbox table
	Schema  string         // the schema of the side tables
	Group   string         // the group of topics that a relay serves, "" for all topics that no group has
	Columns pgname.Columns // where the table's columns have other names than the usual ones
}

// ParseNames reads the two names as they would stand in SQL. All errors come back at once.
func ParseNames(table, schema string) (Names, error) {
	t, terr := pgname.ParseTable(table)
	s, serr := pgname.ParseSchema(schema)
	if err := errors.Join(terr, serr); err != nil {
		return Names{}, err
	}
	if t.Schema == s && slices.Contains(sideTables(), t.Name) {
		return Names{}, fmt.Errorf("table name %q: a side table has that name; give those another schema", table)
	}
	return Names{Table: t, Schema: s}, nil
}

// WithColumns returns the names of a table whose columns have other names than the usual ones: usual=other pairs
// between commas, the other name as in SQL, or nothing after the equals sign where the table has no such column.
// Without aggregate_type, aggregate_id, event_type, created_at or headers the header of that name is left out of the
// records; the other columns every outbox has. Columns of one purpose may coincide, as in partition_key=aggregate_id.
func (n Names) WithColumns(mapping string) (Names, error) {
	columns, err := pgname.ParseColumns(mapping)
	if err != nil {
		return Names{}, fmt.Errorf("map columns: %w", err)
	}
	n.Columns = columns
	return n, nil
}

// sql fills a statement's names in: {{table}}, {{schema}}, the columns, such as {{id}}, {{literal}}, which is the
// table's name as a string constant, and what the pairs name.
func (n Names) sql(text string, pairs ...string) string {
	return n.Columns.Fill(text, append(pairs, "{{table}}", n.Table.String(), "{{schema}}", pgname.Quote(n.Schema),
		"{{literal}}", literal(n.Table.String()), "{{wake_class}}", strconv.Itoa(wakeLockClass))...)
}

// widen says where ids are integers that a parameter is a bigint all the same; else it would take the column's type.
func (o *Outbox) widen(text string) string {
	one, many := "", ""
	if o.ShortIDs {
		one, many = "::bigint", "::bigint[]"
	}
	return strings.NewReplacer("{{wide}}", one, "{{wides}}", many).Replace(text)
}

// command returns a posthaste command line that means this outbox, ready to paste into a POSIX shell.
func (n Names) command(words string) string {
	line := "posthaste " + words
	if def, _ := ParseNames(DefaultTable, DefaultSchema); n.Table != def.Table {
		line += " --table " + shellQuote(n.Table.String())
	}
	if n.Schema != DefaultSchema {
		line += " --schema " + shellQuote(pgname.Quote(n.Schema))
	}
	if n.Group != "" {
		line += " --group " + shellQuote(n.Group)
	}
	if mapping := n.Columns.String(); mapping != "" {
		line += " --columns " + shellQuote(mapping)
	}
	return line
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
