package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lookLimit bounds every statement of those who only look: nobody's curiosity may weigh on a busy database.
const lookLimit = 5 * time.Second

// lookLocalSQL makes the settings of one transaction that looks. The planner is kept to walks along an index: without
// statistics it has been seen to read or sort the whole table for a few rows. JIT would only delay so small a
// statement.
const lookLocalSQL = `
select set_config('statement_timeout', $1, true), set_config('lock_timeout', '1s', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('jit', 'off', true)`

// looking runs statements in one read-only transaction, on one snapshot, each within the limit.
func looking(ctx context.Context, conn *pgx.Conn, limit time.Duration, do func(tx pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lookLocalSQL, fmt.Sprint(limit.Milliseconds())); err != nil {
			return err
		}
		return do(tx)
	})
}

// lookAsReader is Inspect for those who only look: it wants no more than select, a standby will do, and it does not
// wait for long. A table that somebody has locked for himself alone, which even its description is kept behind, is a
// *SchemaError.
func lookAsReader(ctx context.Context, conn *pgx.Conn, names Names) (c *catalog, o *Outbox, err error) {
	err = looking(ctx, conn, lookLimit, func(tx pgx.Tx) error {
		var err error
		if c, err = look(ctx, tx, names); err != nil {
			return err
		}
		c.looker = true
		o = c.outbox()
		return o.judgeSequence(ctx, tx, c)
	})
	if tooLong(err) {
		err = &SchemaError{Outbox: names.Table.String(), Problems: []Problem{names.locked()}}
	}
	return c, o, err
}

func (n Names) locked() Problem {
	return Problem{ErrBusy, fmt.Sprintf("table %s is locked, so nothing can be said of it", n.Table),
		"wait for the transaction that holds the lock, or end it; pg_locks shows which it is"}
}

// patienceSQL lets more time pass than a migration waits, with all others behind it, to add a column. It gives each
// statement its time too, whatever the role's is, and refuses to be shown a part of the rows.
const patienceSQL = `
select set_config('lock_timeout', '5s', true), set_config('statement_timeout', '10s', true),
       set_config('row_security', 'off', true)`

// impatiently runs looks in a transaction that does not wait for long where somebody has locked the table for himself
// alone; then the error is a Problem.
func impatiently(ctx context.Context, conn *pgx.Conn, names Names, do func() error) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, patienceSQL); err != nil {
			return err
		}
		return do()
	})
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "55P03" { // lock_not_available
		return names.locked()
	}
	return err
}

func lookImpatiently(ctx context.Context, conn *pgx.Conn, names Names) (c *catalog, err error) {
	err = impatiently(ctx, conn, names, func() error {
		c, err = look(ctx, conn, names)
		return err
	})
	return c, err
}

// tooLong tells whether a statement was ended because it took longer than its limit.
func tooLong(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refusal.Code == "57014" || refusal.Code == "55P03")
}
