package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Writers are the open transactions that hold a writer's lock on the table: until one has ended, no id that was drawn
// meanwhile is final. Relays in order=strict wait for it, others keep reading from below it. A relay that settles is
// among them for some milliseconds.
type Writers struct {
	Open   int
	Oldest []Writer // the oldest few, those of unknown age last
}

// Writer is one of them.
type Writer struct {
	PID         int    // of its backend, 0 for a prepared transaction
	Prepared    string // the name of a prepared transaction
	User        string
	Application string
	State       string    // as in pg_stat_activity, "" where that hides it
	Since       time.Time // when it began or was prepared; zero where pg_stat_activity hides that from the role
}

// A prepared transaction keeps the virtual transaction of its session, or has one of its own after a restart; its lock
// on its transaction id, under the same, leads to its name.
const openWritersSQL = `
with writer as (
    select distinct l.virtualtransaction as vxid, l.pid from pg_locks l
    where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select oid from pg_database where datname = current_database())
      and (l.relation = {{literal}}::regclass
           or l.relation in (select relid from pg_partition_tree({{literal}}::regclass))))
select count(*) over (), coalesce(w.pid, 0), coalesce(p.gid, ''), coalesce(p.owner::text, a.usename::text, ''),
       coalesce(a.application_name, ''), coalesce(a.state, ''), coalesce(p.prepared, a.xact_start)
from writer w
left join pg_stat_activity a on a.pid = w.pid
left join pg_locks t on w.pid is null and t.pid is null and t.locktype = 'transactionid' and t.granted
    and t.virtualtransaction = w.vxid
left join pg_prepared_xacts p on p.transaction = t.transactionid
order by coalesce(p.prepared, a.xact_start) nulls last limit 5`

func (s *Status) lookAtWriters(ctx context.Context, conn *pgx.Conn) error {
	if _, missing := s.broken(ErrNoTable); missing || s.Standby {
		return nil
	}
	found := &Writers{}
	err := looking(ctx, conn, statusLimit, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.Outbox.Names.sql(openWritersSQL))
		if err != nil {
			return err
		}
		found.Oldest, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Writer, err error) {
			var since *time.Time
			err = row.Scan(&found.Open, &w.PID, &w.Prepared, &w.User, &w.Application, &w.State, &since)
			if since != nil {
				w.Since = *since
			}
			return w, err
		})
		return err
	})
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil // without rights on the schema the table can't be named: that is among the problems already
	}
	if err == nil {
		s.Writers = found
	}
	return err
}
