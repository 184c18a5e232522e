package postgres

import (
	"errors"
	"strings"

	"posthaste.dev/posthaste/internal/pgname"
)

// Names says where an outbox stands in its database. Every statement names its objects in full by it, so the
// session's search_path never matters.
type Names struct {
	Table  pgname.Table // the outbox table
	Schema string       // the schema of the side tables
}

// ParseNames reads the two names as they would stand in SQL. Both errors come back at once.
func ParseNames(table, schema string) (Names, error) {
	t, terr := pgname.ParseTable(table)
	s, serr := pgname.ParseSchema(schema)
	return Names{Table: t, Schema: s}, errors.Join(terr, serr)
}

// sql fills a statement's names in: {{table}} and {{schema}}.
func (n Names) sql(text string) string {
	return strings.NewReplacer("{{table}}", n.Table.String(), "{{schema}}", pgname.Quote(n.Schema)).Replace(text)
}
