package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/pgname"
)

// extras are what a table may have that the one which migrate makes has not.
type extras struct {
	triggers    []trigger
	rules       []rule
	constraints []constraint
	children    []pgname.Table // tables that inherit from it, partitions left out
	parents     []pgname.Table // tables that it inherits from
	partition   bool           // of its parent
	replicated  bool           // a publication sends its updates to others
}

type trigger struct {
	name    string
	kind    int16   // tgtype of pg_trigger
	wakes   bool    // it is ours, see wakeTrigger
	columns []int16 // that an update must name for it to fire, none: any
}

// The bits of tgtype.
const (
	triggerRow    = 1 << 0
	triggerBefore = 1 << 1
	triggerInsert = 1 << 2
	triggerDelete = 1 << 3
	triggerUpdate = 1 << 4
)

type rule struct {
	name    string
	event   string // ev_type of pg_rewrite: 2 update, 3 insert, 4 delete
	instead bool
}

type constraint struct{ name, text string }

// Triggers and rules that are switched off, or on for replication alone, do nothing here.
const (
	triggersSQL = `
select tgname, tgtype, tgattr::int2[], n.nspname = $2 and p.proname = 'wake_up'
from pg_trigger join pg_proc p on p.oid = tgfoid join pg_namespace n on n.oid = p.pronamespace
where tgrelid = $1 and not tgisinternal and tgenabled in ('O', 'A') order by tgname`

	rulesSQL = `
select rulename, ev_type::text, is_instead from pg_rewrite
where ev_class = $1 and rulename <> '_RETURN' and ev_enabled in ('O', 'A') order by rulename`

	constraintsSQL = `
select conname, pg_get_constraintdef(oid) from pg_constraint
where conrelid = $1 and contype in ('c', 'f', 'x') order by conname`

	childrenSQL = `
select n.nspname, c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
join pg_namespace n on n.oid = c.relnamespace
where i.inhparent = $1 and not c.relispartition order by 1, 2`

	parentsSQL = `
select n.nspname, c.relname from pg_inherits i join pg_class c on c.oid = i.inhparent
join pg_namespace n on n.oid = c.relnamespace where i.inhrelid = $1 order by i.inhseqno`

	replicatedSQL = `
select relispartition, exists (
    select from pg_publication p where p.pubupdate
      and (p.puballtables or exists (select from pg_publication_rel r where r.prpubid = p.oid and r.prrelid = c.oid)))
from pg_class c where oid = $1`
)

func (c *catalog) readExtras(ctx context.Context, db reader) error {
	if c.table == nil {
		return nil
	}
	x := &c.extras
	var t trigger
	err := each(ctx, db, triggersSQL, []any{&t.name, &t.kind, &t.columns, &t.wakes}, func() {
		x.triggers = append(x.triggers, t)
	}, c.table.oid, c.names.Schema)
	var r rule
	if err == nil {
		err = each(ctx, db, rulesSQL, []any{&r.name, &r.event, &r.instead}, func() {
			x.rules = append(x.rules, r)
		}, c.table.oid)
	}
	var k constraint
	if err == nil {
		err = each(ctx, db, constraintsSQL, []any{&k.name, &k.text}, func() {
			x.constraints = append(x.constraints, k)
		}, c.table.oid)
	}
	var name pgname.Table
	if err == nil {
		err = each(ctx, db, childrenSQL, []any{&name.Schema, &name.Name}, func() {
			x.children = append(x.children, name)
		}, c.table.oid)
	}
	if err == nil {
		err = each(ctx, db, parentsSQL, []any{&name.Schema, &name.Name}, func() {
			x.parents = append(x.parents, name)
		}, c.table.oid)
	}
	if err == nil {
		err = db.QueryRow(ctx, replicatedSQL, c.table.oid).Scan(&x.partition, &x.replicated)
	}
	return err
}

// each runs a query about one object and calls keep for each row.
func each(ctx context.Context, db reader, sql string, dest []any, keep func(), args ...any) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		keep()
		return nil
	})
	return err
}

// judgeExtras refuses what would make a relay lose, repeat or overlook events.
func (c *catalog) judgeExtras() []Problem {
	var problems []Problem
	add := func(kind error, fix, cause string, args ...any) {
		problems = append(problems, Problem{kind, fmt.Sprintf(cause, args...), fix})
	}
	for _, r := range c.extras.rules {
		if r.instead && (r.event == "2" || r.event == "4") {
			add(ErrRule, fmt.Sprintf("run: drop rule %s on %s", pgname.Quote(r.name), c.names.Table),
				"rule %s on %s takes the place of updates or deletes, so no event could be marked and all would be "+
					"sent again for ever", r.name, c.names.Table)
		}
	}
	for _, child := range c.extras.children {
		add(ErrInherits, fmt.Sprintf("run: alter table %s no inherit %s", child, c.names.Table),
			"table %s inherits from %s: its rows would be read without an index, and its writers are not seen", child,
			c.names.Table)
	}
	if c.extras.partition {
		add(ErrPartitioned, "name the whole table by POSTHASTE_TABLE",
			"%s is a partition of %s: writers draw ids before they come to it, so late ones would be overlooked",
			c.names.Table, c.extras.parents[0])
	}
	if c.extras.replicated && !c.marksReplicate() {
		add(ErrIdentity,
			fmt.Sprintf("run: alter table %s replica identity full, or give it a primary key", c.names.Table),
			"%s is published to others by its updates and has no replica identity, so PostgreSQL refuses every mark",
			c.names.Table)
	}
	return problems
}

// marksReplicate tells whether a publication of the table lets its rows be updated.
func (c *catalog) marksReplicate() bool {
	switch c.table.identity {
	case "f", "i":
		return true
	case "n":
		return false
	}
	return slices.ContainsFunc(c.indexes, func(x index) bool { return x.primary && x.valid })
}
