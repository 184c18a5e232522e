package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A concurrent build holds ShareUpdateExclusiveLock on the table from its start to its end. pg_locks and the pid of
// pg_stat_progress_create_index are shown to every role, the rest of the latter is not.
const indexesSQL = `
select i.indexrelid, n.nspname, c.relname, am.amname, i.indkey[0], i.indkey::int2[], i.indnkeyatts,
       i.indisunique, i.indisprimary,
       exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = i.indrelid),
       coalesce(pg_get_expr(i.indpred, i.indrelid), ''), i.indisvalid and i.indisready and i.indislive,
       coalesce((select p.pid from pg_stat_progress_create_index p join pg_locks l on l.pid = p.pid
                 where l.locktype = 'relation' and l.relation = i.indrelid and l.granted
                   and l.database = (select oid from pg_database where datname = current_database()) limit 1), 0),
       pg_get_indexdef(i.indexrelid)
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_am am on am.oid = c.relam
where i.indrelid = $1 order by c.relname`

const takenSQL = `
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and starts_with(c.relname::text, $2)`

func (c *catalog) readIndexes(ctx context.Context, db reader) error {
	if c.table != nil {
		if err := c.readTableIndexes(ctx, db); err != nil || c.hasIndex() {
			return err
		}
	}
	rows, err := db.Query(ctx, takenSQL, c.names.Table.Schema, c.indexBase())
	if err != nil {
		return err
	}
	c.taken, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}

func (c *catalog) readTableIndexes(ctx context.Context, db reader) error {
	rows, err := db.Query(ctx, indexesSQL, c.table.oid)
	if err != nil {
		return err
	}
	var x index
	_, err = pgx.ForEachRow(rows, []any{&x.oid, &x.name.Schema, &x.name.Name, &x.method, &x.first, &x.columns, &x.keys,
		&x.unique, &x.primary, &x.constraint, &x.predicate, &x.valid, &x.beingBuilt, &x.definedText}, func() error {
		c.indexes = append(c.indexes, x)
		return nil
	})
	return err
}
