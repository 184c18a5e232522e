package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Operator works on what waits in an outbox, on a person's word: parked events, pauses, holds. It writes what is
// wanted into the side tables; relays do it within about a second. Every act stands in the audit table, written in the
// same transaction.
//
// To look it needs select on the side tables, and on the outbox table where it tells of events; a look changes nothing
// and ends after five seconds. To act it needs the operator's rights of GrantsSQL. It belongs to one goroutine at a
// time.
type Operator struct {
	conn   *pgx.Conn
	outbox *Outbox
	user   string
	events *Events // opened when it is needed
}

// What an act can be refused for.
var (
	ErrPaused    = errors.New("paused already")
	ErrNotPaused = errors.New("not paused")
)

const sessionUserSQL = `select session_user`

// OpenOperator looks at the side tables. A *SchemaError says what is wrong with them; what is wrong with the outbox
// table alone keeps nobody from freeing what waits.
func OpenOperator(ctx context.Context, conn *pgx.Conn, names Names) (*Operator, error) {
	names.Group = "" // what waits belongs to the outbox, whatever group ships it
	c, o, err := lookAsReader(ctx, conn, names)
	if err != nil {
		return nil, err
	}
	if problems := c.judgeSide(); len(problems) > 0 {
		return nil, &SchemaError{Outbox: names.Table.String(), Problems: problems}
	}
	op := &Operator{conn: conn, outbox: o}
	if err := conn.QueryRow(ctx, sessionUserSQL).Scan(&op.user); err != nil {
		return nil, fmt.Errorf("look at outbox %s: %w", names.Table, err)
	}
	return op, nil
}

// By says who wants an act, and why.
type By struct {
	Actor  string // a person, for people; the database user is added to it
	Reason string
}

// who is the actor as it is written down. The database user is the server's word, not the caller's.
func (op *Operator) who(by By) string { return by.Actor + ", database user " + op.user }

// check refuses an act that nobody answers for.
func (by By) check(reason bool) error {
	switch {
	case by.Actor == "":
		return errors.New("no actor is given")
	case reason && by.Reason == "":
		return errors.New("no reason is given")
	}
	return nil
}

func (op *Operator) sql(text string) string { return op.outbox.Names.sql(text) }

// table returns what reads the outbox table.
func (op *Operator) table(ctx context.Context) (*Events, error) {
	if op.events == nil {
		events, err := OpenEvents(ctx, op.conn, op.outbox.Names)
		if err != nil {
			return nil, err
		}
		op.events = events
	}
	return op.events, nil
}

// looking is looking with errors that say what could not be read.
func (op *Operator) looking(ctx context.Context, what string, do func(pgx.Tx) error) error {
	err := looking(ctx, op.conn, lookLimit, do)
	if tooLong(err) {
		return fmt.Errorf("%s: no answer within %v: a table is locked, or very much waits", what, lookLimit)
	}
	return op.refused(what, err)
}

// actLocalSQL bounds how long an act waits for relays that work on the same rows.
const actLocalSQL = `select set_config('lock_timeout', '5s', true), set_config('statement_timeout', '30s', true)`

// acting runs an act and its record in one transaction.
func (op *Operator) acting(ctx context.Context, what string, do func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, op.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, actLocalSQL); err != nil {
			return err
		}
		return do(tx)
	})
	return op.refused(what, err)
}

// refused says what a person can do about the server's refusal.
func (op *Operator) refused(what string, err error) error {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "42501" {
		return Problem{ErrRights, refusal.Message,
			op.outbox.Names.command("migrate --print-grants") + " prints the rights that an operator's role needs"}
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "40P01" { // deadlock_detected
		return Problem{ErrBusy, what + ": a relay worked on the same events", "nothing is done; run it again"}
	}
	if problem, ok := errors.AsType[Problem](translate(err)); ok {
		return problem
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

const auditSQL = `
insert into {{schema}}.audit (outbox, actor, act, target, events, reason)
values ($1, $2, $3, $4, $5, nullif($6, ''))`

// record writes an act down; events is nil where an act is not about a number of them.
func (op *Operator) record(ctx context.Context, tx pgx.Tx, by By, act string, target any, events *int) error {
	text, err := json.Marshal(target)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, op.sql(auditSQL), op.outbox.Names.Table.String(), op.who(by), act, string(text), events,
		by.Reason)
	return err
}

// Now returns the database clock, which times are compared on.
func (op *Operator) Now(ctx context.Context) (time.Time, error) { return clock(ctx, op.conn) }

// Relays reads who ships the outbox's events, and so acts on requests.
func (op *Operator) Relays(ctx context.Context) ([]Relays, error) {
	return ReadRelays(ctx, op.conn, op.outbox.Names)
}
