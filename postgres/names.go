package postgres

import (
	"errors"
	"fmt"
	"slices"
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
	Table  pgname.Table // the outbox table
	Schema string       // the schema of the side tables
	Group  string       // the group of topics that a relay serves, "" for all topics that no group has
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

// sql fills a statement's names in: {{table}} and {{schema}}.
func (n Names) sql(text string) string {
	return strings.NewReplacer("{{table}}", n.Table.String(), "{{schema}}", pgname.Quote(n.Schema)).Replace(text)
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
	return line
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
