package posthaste

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// Retriable tells whether an error of a transaction, from a Write, another statement or the commit, goes away when the
// whole transaction is run again: a deadlock, a serialization failure, or a lock that was not granted in time. It
// understands the errors of every driver that tells the SQLSTATE by a method of that name, and bun's pgdriver.
func Retriable(err error) bool {
	switch sqlState(err) {
	case "40P01", "40001", "55P03":
		return true
	}
	return false
}

// explain turns an error of PostgreSQL into one of ours, which says what to do and wraps the original.
func (w *Writer) explain(err error, records []record) error {
	var hint string
	switch sqlState(err) {
	case "23505":
		if duplicate := duplicateEvent(err, w.columns.Name("event_id"), records); duplicate != nil {
			return fmt.Errorf("write events: %w", duplicate)
		}
		hint = fmt.Sprintf("a unique constraint of %s other than that on event_id: if it is the primary key, the "+
			"sequence behind id is lower than the ids in the table", w.table)
	case "40P01":
		return fmt.Errorf("write events: %w: roll back and run the transaction again: %w", ErrDeadlock, err)
	case "40001", "55P03":
		hint = "roll back and run the transaction again"
	case "42P01":
		hint = fmt.Sprintf("there is no table %s: create it by `posthaste migrate up`, or correct Config.Table",
			w.table)
	case "42703":
		hint = fmt.Sprintf("the table %s lacks a column of an outbox: check it by `posthaste migrate status`, and "+
			"Config.Columns where it has other names", w.table)
		if w.headers {
			hint = fmt.Sprintf("the table %s lacks a column, probably headers: add it by `posthaste migrate up "+
				"--headers`, or set Config.Headers to false", w.table)
		}
	case "42501":
		hint = fmt.Sprintf("the role may not insert into %s: grant insert on the table and usage on its schema "+
			"(posthaste migrate --print-grants), and see that no row-level security refuses the row", w.table)
	case "25006":
		hint = "the transaction is read-only, or the server a standby: write on the primary in a read-write transaction"
	case "25P02":
		hint = "an earlier statement has failed the transaction: roll back"
	case "23502", "23514", "428C9":
		hint = fmt.Sprintf("the table %s has a constraint that an outbox has not: give extra columns a default",
			w.table)
	case "42P02":
		hint = "the arguments did not reach the server: of a bun.Tx pass its field Tx"
	case "22P05":
		hint = "a character of the payload does not exist in the database's encoding: use a database in UTF8"
	}
	if hint == "" {
		return fmt.Errorf("write events: %w", err)
	}
	return fmt.Errorf("write events: %s: %w", hint, err)
}

// duplicateEvent finds the event that a unique violation is about, or returns nil if it is about something else. The
// server's words are in the server's language, but the detail always holds the refused value; a role that may not read
// the table is not told it, and then the constraint's name, which has the column's in it, must do.
func duplicateEvent(err error, column string, records []record) *EventError {
	detail, constraint := violation(err)
	refuse := func(i int, id uuid.UUID, eventType string) *EventError {
		return &EventError{Index: i, EventType: eventType, EventID: id, Field: "event_id",
			Err: fmt.Errorf("%w: %w", ErrDuplicateEvent, err)}
	}
	for i := range records {
		if strings.Contains(detail, records[i].id.String()) {
			return refuse(i, records[i].id, records[i].eventType)
		}
	}
	switch {
	case !strings.Contains(constraint, column):
		return nil
	case len(records) == 1:
		return refuse(0, records[0].id, records[0].eventType)
	}
	return refuse(-1, uuid.Nil, "")
}

// sqlState returns the SQLSTATE of an error, or nothing. pgx and lib/pq have a method of that name, bun's pgdriver one
// for all fields of an error.
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	var fields interface{ Field(name byte) string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	} else if errors.As(err, &fields) {
		return fields.Field('C')
	}
	return ""
}

// violation returns the detail of an error and the constraint it names. lib/pq and pgdriver are asked by their methods,
// so that they need not be imported: Get in older versions of lib/pq, ErrorWithDetail in newer ones.
func violation(err error) (detail, constraint string) {
	var get interface{ Get(field byte) string }
	var fields interface{ Field(name byte) string }
	var full interface{ ErrorWithDetail() string }
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return pg.Detail, pg.ConstraintName
	} else if errors.As(err, &get) {
		return get.Get('D'), get.Get('n')
	} else if errors.As(err, &fields) {
		return fields.Field('D'), fields.Field('n')
	} else if errors.As(err, &full) {
		return full.ErrorWithDetail(), err.Error()
	}
	return "", err.Error()
}
