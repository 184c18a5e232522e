package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// aside is the second connection of a session, on which one half of a large settle is made while the first reads and
// makes the other. Marking an event takes five times as long as reading it, and one backend uses one core of the server
// at most, so the marks alone would bound a drain. It is opened when a settle first is large, and closed when none has
// been for a while: a relay that keeps up has no need of it.
//
// A settle was never more than "as far as it came": one of unknown outcome is repeated, and harmless. So its halves
// need not be one transaction.
type aside struct {
	open   func(context.Context) (*pgx.Conn, error)
	local  string // the settings of a transaction
	settle settleSQL
	log    *slog.Logger
	idle   time.Duration // after it, what was not used is closed, and what failed is tried again

	conn   *pgx.Conn // nil while closed
	used   time.Time
	failed time.Time
}

const (
	// largeSettle is how many events make a second round trip worth its while.
	largeSettle  = 256
	asideIdle    = time.Minute
	asideTimeout = time.Second // of opening: the exchange waits for it
)

// share parts a settle out: what the session's first connection is to settle, and what is to be done meanwhile, nil
// if nothing. That returns how many rows it has found unpublished.
func (a *aside) share(refs []relay.Ref) (
	rest []relay.Ref, meanwhile func(context.Context) (settled int, err error),
) {
	now := time.Now()
	switch {
	case a == nil:
		return refs, nil
	case len(refs) < largeSettle:
		if now.Sub(a.used) > a.idle {
			a.close()
		}
		return refs, nil
	case a.conn == nil && now.Sub(a.failed) < a.idle:
		return refs, nil
	case a.conn == nil:
		return refs, func(ctx context.Context) (int, error) { return 0, a.connect(ctx) }
	}
	a.used = now
	half := len(refs) * 3 / 7 // the other connection does not read
	return refs[:half], func(ctx context.Context) (settled int, err error) {
		batch := &pgx.Batch{}
		batch.Queue(a.local)
		a.settle.queue(batch, refs[half:], &settled)
		err = a.conn.SendBatch(ctx, batch).Close()
		return settled, err
	}
}

// connect opens the connection for the next settle. Without it all goes on, only slower, so a failure is none of the
// exchange: the server may have no connection to spare.
func (a *aside) connect(ctx context.Context) error {
	octx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	conn, err := a.open(octx)
	if err != nil && ctx.Err() == nil {
		a.failed = time.Now()
		a.log.Info("settling over one connection, since a second could not be opened", "reason", err,
			"next_try_in", a.idle)
		return nil
	}
	a.conn, a.used = conn, time.Now()
	return err
}

// close closes the connection, if there is one.
func (a *aside) close() {
	if a != nil && a.conn != nil {
		closeNow(a.conn)
		a.conn = nil
	}
}

// sameSQL tells whether a connection has come to the very table that another one works on. The addresses, or what they
// lead to, may have changed in between.
const sameSQL = `
select pg_postmaster_start_time() = $1 and current_database() = $2 and to_regclass({{literal}}) = $3::oid`

// openAside opens a connection beside the session's own.
func (s *Store) openAside(ctx context.Context, outbox *Outbox) (*pgx.Conn, error) {
	conn, pooled, err := connectOwn(ctx, s.target())
	if err != nil {
		return nil, err
	}
	var same bool
	err = conn.QueryRow(ctx, outbox.Names.sql(sameSQL), outbox.Server.Started, outbox.Server.Database, outbox.OID).
		Scan(&same)
	switch {
	case err != nil:
		err = fmt.Errorf("begin a session with PostgreSQL: %w", err)
	case pooled:
		err = errors.New("a pooler has come between")
	case !same:
		err = errors.New("it leads to another server, database or table than the first")
	default:
		return conn, nil
	}
	closeNow(conn)
	return nil, err
}
