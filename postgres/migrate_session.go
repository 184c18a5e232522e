package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	backendSQL     = `select pg_backend_pid()`
	timeoutsSQL    = `select current_setting('statement_timeout'), current_setting('lock_timeout')`
	setTimeoutsSQL = `select set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false)`
)

// prepareSession readies the session for statements outside a transaction. Building an index may take hours, and it
// waits for every transaction that was open before, so neither of the role's timeouts may end it. A pooler that
// switches servers between statements would neither keep these settings nor the lock; it shows by a backend number
// that is not the one given at connecting.
func prepareSession(ctx context.Context, conn *pgx.Conn) (restore func() error, err error) {
	var pid uint32
	var statement, lock string
	if err := conn.QueryRow(ctx, backendSQL).Scan(&pid); err != nil {
		return nil, err
	}
	if pid != conn.PgConn().PID() {
		return nil, Problem{ErrPooler,
			"the connection goes through a pooler, and an existing table is changed under a session's lock",
			"set DATABASE_URL to connect to PostgreSQL directly for this one command"}
	}
	if err := conn.QueryRow(ctx, timeoutsSQL).Scan(&statement, &lock); err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, setTimeoutsSQL, "0", "0"); err != nil {
		return nil, err
	}
	return func() error { return afterwards(ctx, conn, setTimeoutsSQL, statement, lock) }, nil
}

func lockAdoption(ctx context.Context, conn *pgx.Conn, names Names) (unlock func() error, err error) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		var locked bool
		if err := conn.QueryRow(ctx, tryAdoptLockSQL, names.Schema).Scan(&locked); err != nil {
			return nil, err
		}
		if locked {
			return func() error { return afterwards(ctx, conn, adoptUnlockSQL, names.Schema) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// afterwards runs a statement that puts the session back in order. A cancelled context has closed the connection, and
// the server has done the same by itself.
func afterwards(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	if conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, sql, args...)
	return err
}
