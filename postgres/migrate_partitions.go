package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/pgname"
)

// partition is one table of a partitioned outbox, the whole one first.
type partition struct {
	Name, Parent pgname.Table
	Leaf         bool
	index        *partitionIndex // like the one that polls need; nil: none
}

type partitionIndex struct {
	Table, Name pgname.Table
	Valid       bool
	Attached    bool  // to an index of the parent
	BeingBuilt  int32 // the backend that builds an index on this partition now, 0: none
}

const (
	partitionsSQL = `
select n.nspname, c.relname, coalesce(pn.nspname, ''), coalesce(p.relname, ''), t.isleaf
from pg_partition_tree($1) t
join pg_class c on c.oid = t.relid join pg_namespace n on n.oid = c.relnamespace
left join pg_class p on p.oid = t.parentrelid left join pg_namespace pn on pn.oid = p.relnamespace
order by t.level, n.nspname, c.relname`

	// A valid or attached one goes before what an interrupted build has left.
	partitionIndexesSQL = `
select tn.nspname, tc.relname, n.nspname, c.relname, i.indisvalid and i.indisready and i.indislive, c.relispartition,
       coalesce((select p.pid from pg_stat_progress_create_index p join pg_locks l on l.pid = p.pid
                 where l.locktype = 'relation' and l.relation = i.indrelid and l.granted
                   and l.database = (select oid from pg_database where datname = current_database()) limit 1), 0)
from pg_index i
join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
join pg_am a on a.oid = c.relam and a.amname = 'btree'
join pg_class tc on tc.oid = i.indrelid join pg_namespace tn on tn.oid = tc.relnamespace
where i.indrelid in (select relid from pg_partition_tree($1))
  and pg_get_indexdef(i.indexrelid, 1, true) = quote_ident($2)
  and pg_get_expr(i.indpred, i.indrelid) = '(' || quote_ident($3) || ' IS NULL)'
order by i.indisvalid, c.relispartition`

	takenInSQL = `
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any($1) and c.relname like 'ix\_%\_unpublished%'`
)

// readPartitions reads what building the index of a partitioned table needs, where that is missing.
func (c *catalog) readPartitions(ctx context.Context, db reader) error {
	if c.table == nil || c.table.kind != "p" || c.hasIndex() {
		return nil
	}
	var p partition
	err := each(ctx, db, partitionsSQL,
		[]any{&p.Name.Schema, &p.Name.Name, &p.Parent.Schema, &p.Parent.Name, &p.Leaf},
		func() { c.partitions = append(c.partitions, p) }, c.table.oid)
	if err != nil {
		return err
	}
	id, published := c.names.Columns.Name("id"), c.names.Columns.Name("published_at")
	rows, err := db.Query(ctx, partitionIndexesSQL, c.table.oid, id, published)
	if err != nil {
		return err
	}
	var x partitionIndex
	_, err = pgx.ForEachRow(rows,
		[]any{&x.Table.Schema, &x.Table.Name, &x.Name.Schema, &x.Name.Name, &x.Valid, &x.Attached,
			&x.BeingBuilt}, func() error {
			at := slices.IndexFunc(c.partitions, func(p partition) bool { return p.Name == x.Table })
			found := x
			c.partitions[at].index = &found
			return nil
		})
	if err != nil {
		return err
	}
	var schemas []string
	for _, p := range c.partitions {
		schemas = append(schemas, p.Name.Schema)
	}
	if rows, err = db.Query(ctx, takenInSQL, schemas); err != nil {
		return err
	}
	c.takenIn, err = pgx.CollectRows(rows, pgx.RowToStructByPos[pgname.Table])
	return err
}

// planPartitions builds the index of a partitioned table without holding writers up: PostgreSQL can't build it
// concurrently on the whole, but takes one on each partition and puts them together. The index on the whole comes
// first, empty and invalid, and becomes valid with the last one attached. A run that is interrupted goes on there.
func (c *catalog) planPartitions(p *plan) {
	c.indexPartition(p, c.partitions[0])
}

// indexPartition sees to the index of one table and returns its name and whether it is attached to its parent's.
func (c *catalog) indexPartition(p *plan, t partition) (name pgname.Table, attached bool) {
	x := t.index
	if x != nil && x.BeingBuilt != 0 {
		p.busy = Problem{ErrBusy, fmt.Sprintf("process %d is building an index on %s", x.BeingBuilt, t.Name),
			"run it again when that has ended"}
		return x.Name, x.Attached
	}
	names := c.names
	names.Table = t.Name
	switch {
	case x != nil && (x.Valid || !t.Leaf):
		name, attached = x.Name, x.Attached
	case t.Leaf && x != nil:
		p.adopted = append(p.adopted, Step{"drop invalid index " + x.Name.String(),
			"drop index concurrently " + x.Name.String()})
		fallthrough
	default:
		name = pgname.Table{Schema: t.Name.Schema, Name: c.freeNameIn(t.Name)}
		if t.Leaf {
			p.adopted = append(p.adopted, Step{"build partial index on partition " + t.Name.String() +
				", without blocking writers", createIndex("create index concurrently", name.Name, names)})
		} else {
			p.adopted = append(p.adopted, Step{"begin the partial index of " + t.Name.String(),
				briefly + createIndexOnly(name.Name, names)})
		}
	}
	for _, child := range c.partitions {
		if t.Leaf || child.Parent != t.Name {
			continue
		}
		if part, attached := c.indexPartition(p, child); !attached {
			p.adopted = append(p.adopted, Step{fmt.Sprintf("attach the index of partition %s", child.Name),
				fmt.Sprintf("%salter index %s attach partition %s;", briefly, name, part)})
		}
	}
	return name, attached
}

// briefly goes before what needs a lock that writers queue behind: it gives way, and is tried again.
const briefly = "set local lock_timeout = '300ms';\n"

func createIndexOnly(name string, names Names) string {
	return "create index " + pgname.Quote(name) +
		names.sql("\n    on only {{table}} ({{id}})\n    where {{published_at}} is null;")
}

// freeNameIn returns the usual index name for a table that nothing in its schema has, and takes it.
func (c *catalog) freeNameIn(table pgname.Table) string {
	of := &catalog{names: Names{Table: table}}
	for _, t := range c.takenIn {
		if t.Schema == table.Schema {
			of.taken = append(of.taken, t.Name)
		}
	}
	name := of.freeIndexName()
	c.takenIn = append(c.takenIn, pgname.Table{Schema: table.Schema, Name: name})
	return name
}
