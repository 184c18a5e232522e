// Package load writes events the way services do, with plain SQL, and keeps a ledger of what was committed.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste/e2e/check"
)

// Population describes a group of writers.
type Population struct {
	Prefix  string        // of its keys
	Keys    int           // how many keys, used in bursts and some far more often than others
	Locked  bool          // a writer locks its aggregate's row first, so the transactions of a key follow one another
	Workers int           // transactions that can be open at a time
	Rate    float64       // transactions a second, if the workers can
	MaxHold time.Duration // how long a transaction may stay open after its last event, 2.5 seconds if zero
	Topics  []string      // an event goes to any of them; its type is what follows the first dot
	Headers bool          // the table has the column headers; half the events use it
	Insert  Insert        // plain SQL if nil
	Seed    uint64
}

// Insert writes events within a transaction and fills in what only the database knows: ID, Value, CreatedAt.
type Insert func(ctx context.Context, tx pgx.Tx, table string, events []check.Event) error

// Every tenth transaction is rolled back. Most are short; one in seventy stays open for seconds.
const (
	rollBacks = 0.1
	maxHold   = 2500 * time.Millisecond
	// lockWait ends the wait for a row or key that a slow transaction holds, so that not all workers end up behind it.
	lockWait = "100ms"
)

// Prepare makes the business table that locked writers need, with a row for each key.
func (p Population) Prepare(ctx context.Context, db *pgxpool.Pool) error {
	_, err := db.Exec(ctx, `
		create table if not exists aggregate (id text primary key, version integer not null default 0)`)
	if err == nil {
		_, err = db.Exec(ctx, `
			insert into aggregate (id) select $1 || n from generate_series(0, $2::int - 1) n`, p.Prefix, p.Keys)
	}
	if err != nil {
		return fmt.Errorf("prepare aggregates: %w", err)
	}
	return nil
}

// Run writes until the context is done, then lets the open transactions end, and returns. It ends early only with the
// first error that is no lock time-out.
func (p Population) Run(ctx context.Context, db *pgxpool.Pool, table string, ledger *Ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keys := newKeys(p.Prefix, p.Keys, p.Seed)
	var wg sync.WaitGroup
	for n := range p.Workers {
		w := worker{p, db, table, ledger, keys, rand.New(rand.NewPCG(p.Seed, uint64(n+2)))}
		wg.Go(func() {
			if err := w.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

type worker struct {
	Population
	db     *pgxpool.Pool
	table  string
	ledger *Ledger
	keys   *keys
	rng    *rand.Rand
}

func (w worker) run(ctx context.Context) error {
	mean := float64(w.Workers) / w.Rate
	for wait(ctx, time.Duration(w.rng.ExpFloat64()*mean*float64(time.Second))) {
		err := w.transaction(ctx)
		if timedOut(err) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timedOut tells whether the wait for a lock was too long. When the lock comes in the very moment of the time-out,
// PostgreSQL now and then speaks of a user's request instead.
func timedOut(err error) bool {
	const lockNotAvailable, queryCanceled = "55P03", "57014"
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == lockNotAvailable || pgErr.Code == queryCanceled)
}

// transaction writes 1 to 5 events of one key. Once begun it goes through whatever becomes of ctx, so that no commit
// is left with an unknown outcome; only its wait is cut short.
func (w worker) transaction(ctx context.Context) error {
	detached := context.WithoutCancel(ctx)
	tx, err := w.db.Begin(detached)
	if err != nil {
		return err
	}
	defer tx.Rollback(detached)
	if _, err := tx.Exec(detached, `set local lock_timeout = '`+lockWait+`'`); err != nil {
		return err
	}
	key := w.keys.next()
	if w.Locked {
		if err := lockAggregate(detached, tx, key); err != nil {
			return err
		}
	}
	events := make([]check.Event, 1+w.rng.IntN(5))
	for i := range events {
		events[i] = w.event(key)
	}
	insert := w.Insert
	if insert == nil {
		insert = w.insertSQL
	}
	if err := insert(detached, tx, w.table, events); err != nil {
		return err
	}
	wait(ctx, w.hold())
	if w.rng.Float64() < rollBacks {
		w.ledger.rollBack(len(events))
		return tx.Rollback(detached)
	}
	if err := tx.Commit(detached); err != nil {
		return err
	}
	w.ledger.commit(events)
	return nil
}

func lockAggregate(ctx context.Context, tx pgx.Tx, key string) error {
	var version int
	err := tx.QueryRow(ctx, `select version from aggregate where id = $1 for update`, key).Scan(&version)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `update aggregate set version = $2 where id = $1`, key, version+1)
	return err
}

// hold is how long a transaction stays open after its last event.
func (w worker) hold() time.Duration {
	longest := cmp.Or(w.MaxHold, maxHold)
	switch r := w.rng.Float64(); {
	case r < 0.90:
		return min(longest, w.between(0, 10*time.Millisecond))
	case r < 0.985:
		return min(longest, w.between(20*time.Millisecond, 200*time.Millisecond))
	default:
		return w.between(longest/5, longest)
	}
}

func (w worker) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

// wait paces the load; false when the context ended it.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
