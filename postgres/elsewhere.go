package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste.dev/posthaste/internal/pgname"
)

// beginner is what looking elsewhere needs: a connection, or a transaction, which then makes savepoints.
type beginner interface {
	reader
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Side schemas are known by their tables, since each may have any name. The right on one that was dropped meanwhile is
// null.
const (
	sideSchemasSQL = `
select * from (
select n.nspname, has_schema_privilege(n.oid, 'usage') and has_table_privilege(o.oid, 'select') as readable
from pg_namespace n
join pg_class o on o.relnamespace = n.oid and o.relname = 'outbox' and o.relkind = 'r'
where n.nspname <> $1
  and exists (select from pg_attribute a where a.attrelid = o.oid and a.attname = 'lock_class')
  and (select count(*) from pg_class c
       where c.relnamespace = n.oid and c.relkind = 'r' and c.relname in ('schema_version', 'member', 'lane')) = 3
) side where readable is not null order by nspname`

	registeredSQL = `select exists (select from {{schema}}.outbox where name = $1)`

	// tableLockSQL lets one migration at a time decide about a table, whatever their side schemas are.
	tableLockSQL = `select pg_advisory_xact_lock(hashtextextended('posthaste table ' || $1, 0))`
)

// elsewhere finds the other side schemas of the database in which the table is registered too: two sets of relays that
// know nothing of each other would send its events twice. A schema that this role may not read is only named.
func elsewhere(ctx context.Context, db beginner, names Names) (registered, unreadable []Problem, err error) {
	rows, err := db.Query(ctx, sideSchemasSQL, names.Schema)
	if err != nil {
		return nil, nil, fmt.Errorf("look for other side schemas: %w", err)
	}
	type side struct {
		Name    string
		MayRead bool
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[side])
	if err != nil {
		return nil, nil, fmt.Errorf("look for other side schemas: %w", err)
	}
	for _, s := range all {
		other := Names{Table: names.Table, Schema: s.Name, Columns: names.Columns}
		if !s.MayRead {
			unreadable = append(unreadable, Problem{ErrElsewhere,
				fmt.Sprintf("this role may not read the side tables in schema %s, which may hold %s too", s.Name,
					names.Table),
				"see that no relay works on the table by them"})
			continue
		}
		var found bool
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, other.sql(registeredSQL), names.Table.String()).Scan(&found)
		})
		if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && strings.HasPrefix(refusal.Code, "42") {
			continue // it has been dropped, or taken from us, in the meantime
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look into side schema %s: %w", s.Name, err)
		}
		if found {
			registered = append(registered, other.refuseTwice())
		}
	}
	return registered, unreadable, nil
}

func (n Names) refuseTwice() Problem {
	return Problem{ErrElsewhere,
		fmt.Sprintf("%s is registered in side schema %s already; relays of two side schemas would send every event "+
			"twice", n.Table, n.Schema),
		fmt.Sprintf("use that one (POSTHASTE_SCHEMA=%s); or stop its relays and run: "+
			"delete from %s.outbox where name = %s",
			shellQuote(pgname.Quote(n.Schema)), pgname.Quote(n.Schema), literal(n.Table.String()))}
}
