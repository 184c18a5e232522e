package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultLanes is the number of lanes of an outbox that nobody gave another.
const DefaultLanes = 64

// MigrateOptions says what a migration may do. The zero value is the usual one.
type MigrateOptions struct {
	// Lanes is the number of lanes that a new outbox gets, a power of two up to 1024; 0 means DefaultLanes. It bounds
	// how many relays can share the outbox. For an outbox that has lanes already, 0 or their number is accepted.
	Lanes int
	// Headers adds the optional column headers jsonb.
	Headers bool
	// WakeUp says whether the table has the trigger that wakes relays which sleep.
	WakeUp WakeUp
	// DryRun plans only: the steps come back, the database stays as it is.
	DryRun bool
	// Before, if set, hears of each step before it runs, for the long ones.
	Before func(Step)
}

// A Step is one thing that a migration does.
type Step struct {
	What string // in words
	SQL  string
}

// Migration is what a migration did, or would do in a dry run. With an error, Steps are those that remain done.
type Migration struct {
	Steps []Step
	Notes []string // what it found and left alone

	// Differences from the table that Migrate makes, where it adopted one. Those that refuse come as an error instead.
	Differences []Difference

	stood bool // the table was there before, and no migration of ours made it
}

// Migrate brings an outbox up to SchemaVersion: the table with its partial index, the side tables, and the outbox's
// row and lanes in them. Running it again does what is missing, or nothing.
//
// A table that stands is adopted: its columns are compared, none is changed, and the index is built concurrently
// where no valid one stands. Whatever can be refused is refused before the first change. Everything new is created in
// one transaction; what touches an adopted table comes after it, one statement at a time, and is found and finished
// by the next run if it is interrupted.
//
// Any number of migrations may run at once: they take turns by an advisory lock of the database and the side schema.
// Refusals are Problems or a *SchemaError.
func Migrate(ctx context.Context, conn *pgx.Conn, names Names, opts MigrateOptions) (*Migration, error) {
	m := &Migration{}
	if err := opts.check(); err != nil {
		return m, fmt.Errorf("migrate up: %w", err)
	}
	var err error
	if opts.DryRun {
		err = m.rehearse(ctx, conn, names, opts)
	} else if err = m.create(ctx, conn, names, opts); err == nil {
		err = m.adopt(ctx, conn, names, opts)
	}
	if m.stood {
		err = errors.Join(err, m.compare(ctx, conn, names))
	}
	if err != nil {
		return m, fmt.Errorf("migrate up: %w", err)
	}
	return m, nil
}

// compare looks at what stands after all steps, or what the refusal has left.
func (m *Migration) compare(ctx context.Context, conn *pgx.Conn, names Names) error {
	if conn.IsClosed() || ctx.Err() != nil {
		return nil
	}
	_, all, err := Differences(ctx, conn, names)
	m.Differences = slices.DeleteFunc(all, func(d Difference) bool { return d.Severity == Refuse })
	return err
}

func (c *catalog) stood() bool { return c.table != nil && (c.register == nil || !c.register.created) }

func (o MigrateOptions) check() error {
	if l := o.Lanes; l < 0 || l > 1024 || l&(l-1) != 0 {
		return Problem{ErrLanes, fmt.Sprintf("%d lanes are not possible", l), "choose a power of two from 1 to 1024"}
	}
	return nil
}

func (m *Migration) rehearse(ctx context.Context, conn *pgx.Conn, names Names, opts MigrateOptions) error {
	c, err := lookImpatiently(ctx, conn, names)
	if err != nil {
		return err
	}
	m.stood = c.stood()
	p, err := c.plan(opts)
	m.Steps, m.Notes = append(p.fresh, p.adopted...), p.notes
	if err == nil {
		err = refuseElsewhere(ctx, conn, names)
	}
	return errors.Join(err, p.busy)
}

func refuseElsewhere(ctx context.Context, db beginner, names Names) error {
	twice, _, err := elsewhere(ctx, db, names)
	if err != nil || len(twice) == 0 {
		return err
	}
	return &SchemaError{Outbox: names.Table.String(), Problems: twice}
}

const (
	// One bigint key, since relays and strict writers use pairs of integers, which PostgreSQL keeps apart.
	migrateLockSQL    = `select pg_advisory_xact_lock(hashtextextended('posthaste migrate ' || $1, 0))`
	tryAdoptLockSQL   = `select pg_try_advisory_lock(hashtextextended('posthaste adopt ' || $1, 0))`
	adoptUnlockSQL    = `select pg_advisory_unlock(hashtextextended('posthaste adopt ' || $1, 0))`
	migrateTimeoutSQL = `select set_config('statement_timeout', '0', true), set_config('lock_timeout', '60s', true)`
)

// create makes everything that is new, in one transaction. Each statement of it sees what the migration before has
// committed: that needs read committed, whatever the role's default is, since with another level the snapshot would
// be as old as the wait for the lock.
func (m *Migration) create(ctx context.Context, conn *pgx.Conn, names Names, opts MigrateOptions) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, migrateTimeoutSQL); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, migrateLockSQL, names.Schema); err != nil {
			return translate(err)
		}
		if _, err := tx.Exec(ctx, tableLockSQL, names.Table.String()); err != nil {
			return translate(err)
		}
		c, err := look(ctx, tx, names)
		if err != nil {
			return translate(err)
		}
		m.stood = c.stood()
		p, err := c.plan(opts)
		if err == nil {
			err = refuseElsewhere(ctx, tx, names)
		}
		if err != nil {
			return err
		}
		for _, s := range p.fresh {
			if err := m.run(ctx, tx, s, opts); err != nil {
				m.Steps = nil
				return err
			}
		}
		return nil
	})
}

// adopt does what an existing table needs. Its lock is a second one, taken by asking again and again: whoever waits
// inside a statement holds a snapshot, a concurrent index build waits for all snapshots, and the two would deadlock.
func (m *Migration) adopt(ctx context.Context, conn *pgx.Conn, names Names, opts MigrateOptions) (err error) {
	c, err := lookImpatiently(ctx, conn, names)
	if err != nil {
		return err
	}
	p, err := c.plan(opts)
	m.Notes = p.notes
	if err != nil || len(p.adopted) == 0 && p.busy == nil {
		return err
	}
	restore, err := prepareSession(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	unlock, err := lockAdoption(ctx, conn, names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	if c, err = lookImpatiently(ctx, conn, names); err != nil {
		return err
	}
	if p, err = c.plan(opts); err != nil {
		return err
	}
	if p.busy != nil {
		return p.busy
	}
	for _, s := range p.adopted {
		if err := m.run(ctx, conn, s, opts); err != nil {
			return err
		}
	}
	return nil
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (m *Migration) run(ctx context.Context, db executor, s Step, opts MigrateOptions) error {
	if opts.Before != nil {
		opts.Before(s)
	}
	_, err := db.Exec(ctx, s.SQL)
	for tries := 1; err != nil && tries < briefTries && errors.Is(translate(err), ErrBusy) &&
		strings.HasPrefix(s.SQL, briefly); tries++ {
		// Whoever queued behind this step goes first.
		select {
		case <-time.After(briefPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err = db.Exec(ctx, s.SQL)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.What, translate(err))
	}
	m.Steps = append(m.Steps, s)
	return nil
}

// A step that gives way to writers is tried for some seconds altogether.
const (
	briefTries = 10
	briefPause = 200 * time.Millisecond
)

// translate turns the server's refusals that a user can mend into Problems. The server's own words stay in.
func translate(err error) error {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return err
	}
	switch refusal.Code {
	case "42501": // insufficient_privilege
		return Problem{ErrRights, refusal.Message,
			"run it as the owner of the schema and the table, or as a role granted to it"}
	case "55P03": // lock_not_available
		return Problem{ErrBusy, "another transaction keeps what this step needs locked: " + refusal.Message,
			"run it again when long transactions (pg_stat_activity) have ended"}
	case "25006": // read_only_sql_transaction
		return Problem{ErrReadOnly, refusal.Message, "connect to the primary, as a role that may write"}
	case "42P07", "42710": // duplicate_table, duplicate_object
		return Problem{ErrForeignTable, refusal.Message,
			"choose another side schema by POSTHASTE_SCHEMA, or run it again"}
	case "2BP01": // dependent_objects_still_exist
		return Problem{ErrBusy, refusal.Message + ": " + refusal.Detail, "drop these first"}
	}
	return err
}
