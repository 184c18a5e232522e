package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// A Severity says what a difference means.
type Severity string

// The severities.
const (
	Refuse   Severity = "refuse"     // a relay does not start, or a migration not begin
	WorksBut Severity = "works, but" // a relay works, though not at its best
	Note     Severity = "note"       // good to know
)

// Difference is one way in which an outbox is not as migrate makes it.
type Difference struct {
	Severity Severity
	Problem
}

// Differences looks at an outbox as Inspect does, and also for the same table in other side schemas. It returns all
// that is not as migrate would make it, what refuses first. The Outbox is nil only with an error, which is one of the
// connection.
func Differences(ctx context.Context, conn *pgx.Conn, names Names, rights ...Right) (*Outbox, []Difference, error) {
	outbox, err := Inspect(ctx, conn, names, rights...)
	var wrong *SchemaError
	if err != nil && !errors.As(err, &wrong) {
		return nil, nil, err
	}
	twice, unreadable, err := elsewhere(ctx, conn, names)
	if err != nil {
		return nil, nil, err
	}
	var all []Difference
	add := func(s Severity, problems []Problem) {
		for _, p := range problems {
			all = append(all, Difference{s, p})
		}
	}
	if wrong != nil {
		add(Refuse, wrong.Problems)
	}
	add(Refuse, twice)
	add(WorksBut, outbox.Warnings)
	add(Note, outbox.Notes)
	add(Note, unreadable)
	return outbox, all, nil
}

// Refusals returns a *SchemaError with the differences that refuse, or nil.
func Refusals(names Names, all []Difference) error {
	e := &SchemaError{Outbox: names.Table.String()}
	for _, d := range all {
		if d.Severity == Refuse {
			e.Problems = append(e.Problems, d.Problem)
		}
	}
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}
