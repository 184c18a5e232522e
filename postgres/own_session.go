package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ownSettings are what every session of a relay has, whatever role and database say: limits that suit people would end
// each read of a long backlog, or the connection of a member between two beats. What a relay does is bounded by itself:
// statement_timeout is only there so that the server gives up what the relay has given up.
//
// row_security off does not switch it off: a read from which rows would be hidden then fails instead. A relay that
// found no rows would look healthy for ever.
//
// Nothing is compiled: the cost of a read that leaves out what waits, or reads nothing else, is estimated as that of a
// walk over all that waits, although it ends at its limit, and compiling it took 0.3 to 1 s where the read took some
// ms.
//
// Whether a role may write is its administrator's to say, so default_transaction_read_only stays.
var ownSettings = map[string]string{
	"statement_timeout":                   "60s",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "10s",
	"idle_session_timeout":                "0", // from 14 on
	"transaction_timeout":                 "0", // from 17 on
	"default_transaction_isolation":       "read committed",
	"row_security":                        "off",
	"jit":                                 "off",
}

// ownSessionSQL sets what the server knows, if it is the client's alone. Behind a pooler the session will serve others,
// and it shows by the backend's number, which is not the one told at connect.
const ownSessionSQL = `
select set_config(name, value, false) from unnest($1::text[], $2::text[]) own (name, value)
where pg_backend_pid() = $3 and current_setting(name, true) is not null`

// takeSession gives the session its settings and tells whether a pooler stands between, where it has none of them. The
// statement has no name on the server, since behind a pooler it might meet its like there.
func takeSession(ctx context.Context, conn *pgx.Conn) (pooled bool, err error) {
	var values []string
	names := slices.Sorted(maps.Keys(ownSettings))
	for _, name := range names {
		values = append(values, ownSettings[name])
	}
	tag, err := conn.Exec(ctx, ownSessionSQL, pgx.QueryExecModeExec, names, values, int32(conn.PgConn().PID()))
	if err != nil {
		return false, fmt.Errorf("begin a session with PostgreSQL: %w", err)
	}
	return tag.RowsAffected() == 0, nil
}

// settleSettings are those of a transaction that settles. A lost mark is a duplicate, never a loss, so it need not wait
// for the disk; it does not wait long for a row (the first settle of a session may wait for the table, when it is
// parsed); and its plan is the generic one, which looks every id up: a custom plan over a table of 50,000 rows reads
// all of it for each chunk.
func settleSettings(sync bool) map[string]string {
	commit := "off"
	if sync {
		commit = "on"
	}
	return map[string]string{
		"synchronous_commit": commit, "lock_timeout": "2s", "plan_cache_mode": "force_generic_plan",
	}
}

// localSQL makes the settings of one transaction: those that a session behind a pooler could not be given, and more.
func localSQL(serverVersion int, more map[string]string) string {
	local := maps.Clone(ownSettings)
	maps.Copy(local, more)
	delete(local, "idle_session_timeout") // these say nothing once a transaction has begun
	delete(local, "default_transaction_isolation")
	if serverVersion < 170000 {
		delete(local, "transaction_timeout")
	}
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(local)) {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', true)", name, local[name]))
	}
	return "select " + strings.Join(calls, ", ")
}

// waysOut are for refusals that come again and again until a person does something.
var waysOut = map[string]string{
	"53100": "make room on the disk of the database server",
	"25P03": "see that the role has no idle_in_transaction_session_timeout; behind a pooler a relay can't lift it",
	"25P04": "see that the role has no transaction_timeout; behind a pooler a relay can't always lift it",
	"57P05": "see that the role has no idle_session_timeout; behind a pooler a relay can't lift it",
}

// advised adds the way out to a refusal that needs one, and what the server itself has to say of it.
func advised(err error) error {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	if way := cmp.Or(waysOut[refusal.Code], refusal.Hint); way != "" {
		return fmt.Errorf("%w; %s", err, way)
	}
	return err
}
