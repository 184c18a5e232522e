package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"posthaste.dev/posthaste/internal/pgname"
)

// differ lists what is not as in the table that migrate makes and lets a relay work: warnings where it would work
// better otherwise, notes on the rest.
func (c *catalog) differ() (warnings, notes []Problem) {
	if c.table == nil || c.table.kind != "r" && c.table.kind != "p" {
		return nil, nil
	}
	d := &differences{catalog: c}
	d.compareColumns()
	d.compareExtraColumns()
	d.compareKeys()
	d.compareIndexes()
	d.compareTriggers()
	d.compareRules()
	d.compareStorage()
	return d.warnings, d.notes
}

type differences struct {
	*catalog
	warnings, notes []Problem
}

func (d *differences) warn(kind error, fix, cause string, args ...any) {
	d.warnings = append(d.warnings, Problem{kind, fmt.Sprintf(cause, args...), fix})
}

func (d *differences) note(kind error, fix, cause string, args ...any) {
	d.notes = append(d.notes, Problem{kind, fmt.Sprintf(cause, args...), fix})
}

// alter returns a statement about the table, to be run.
func (d *differences) alter(format string, args ...any) string {
	return "run: alter table " + d.names.Table.String() + " " + fmt.Sprintf(format, args...)
}

// timeDefaults are what may stand for now() as the default of created_at.
var timeDefaults = []string{"now()", "CURRENT_TIMESTAMP", "clock_timestamp()", "statement_timestamp()",
	"transaction_timestamp()"}

func (d *differences) compareColumns() {
	for _, want := range seedColumns {
		col, ok := d.column(want.name)
		name := d.names.Columns.Name(want.name)
		switch {
		case !ok && pgname.Optional(want.name):
			d.missing(want.name, want.typeName)
			continue
		case !ok || !slices.Contains(want.types, col.typeOID):
			continue // refused
		case col.typeOID == pgtype.Int4OID:
			d.warn(ErrColumn,
				"long before that, in a quiet hour, since it rewrites the table under its strongest lock, "+
					d.alter("alter column %s type bigint", sqlName(name)),
				"column %s is integer: no event can be written after 2147483647", name)
		case col.typeOID == pgtype.JSONOID:
			d.note(ErrColumn, "nothing needs to be done; jsonb would print it in its own way and rewrite the table",
				"column %s is json: events are sent as they were written, byte for byte", name)
		case col.typeOID == pgtype.VarcharOID:
			d.note(ErrColumn, d.alter("alter column %s type text", sqlName(name)),
				"column %s is %s: a longer value fails the service's transaction", name, col.typeName)
		}
		switch {
		case pgname.Optional(want.name) && !col.notNull:
			d.note(ErrColumn, d.setNotNull(col),
				"column %s may be null: such an event is sent without that header", name)
		case want.name == "created_at" && col.defaultText == "":
			d.warn(ErrColumn, d.alter("alter column %s set default now()", sqlName(name)),
				"column %s has no default, so every insert must give it, and Posthaste's Go writer does not", name)
		}
		if col.generated != "" && want.name != "created_at" {
			d.warn(ErrColumn, d.alter("alter column %s drop expression", sqlName(name)),
				"column %s is generated, so an insert that gives it fails, and Posthaste's Go writer gives it", name)
		}
		odd := col.defaultText != "" && col.generated == "" && want.name != "id" && want.name != "published_at"
		if odd && (want.name != "created_at" || !slices.Contains(timeDefaults, col.defaultText)) {
			d.note(ErrColumn, "if it hides mistakes, "+d.alter("alter column %s drop default", sqlName(name)),
				"column %s has the default %s", name, col.defaultText)
		}
	}
	if id, ok := d.column("id"); ok && id.identity != "a" {
		d.note(ErrSequence,
			"leave ids to the sequence; in the table that migrate makes they are generated always as identity",
			"ids may be given by hand, and one below what was sent already is sent late, with the next sweep")
	}
	if col, ok := d.column("headers"); ok && col.typeOID != pgtype.JSONBOID {
		d.warn(ErrColumn,
			"name another column by POSTHASTE_COLUMNS=headers=NAME, or none by POSTHASTE_COLUMNS=headers=",
			"column %s is %s, so it is taken for one of your own and no headers are read from it",
			col.name, col.typeName)
	}
}

// missing notes an optional column that the table does without, with what gives it one. No statement here rewrites the
// table, and each needs it alone for a moment only.
func (d *differences) missing(usual, typeName string) {
	if !d.names.Columns.Has(usual) {
		d.note(ErrColumn, "nothing needs to be done: POSTHASTE_COLUMNS says so",
			"there is no column for %s: records go without that header", usual)
		return
	}
	add := "add column " + usual + " " + typeName
	if usual == "created_at" {
		add += " not null default now()"
	}
	d.note(ErrColumn, "name the column that stands for it by POSTHASTE_COLUMNS="+usual+"=NAME, or "+d.alter("%s", add),
		"column %s is missing: records go without that header", usual)
}

// extraColumns lists the columns that are none of an outbox's.
func (c *catalog) extraColumns() []column {
	return slices.DeleteFunc(slices.Clone(c.columns), func(col column) bool {
		return slices.ContainsFunc(pgname.ColumnNames(), func(usual string) bool {
			return c.names.Columns.Name(usual) == col.name
		})
	})
}

func (d *differences) compareExtraColumns() {
	incomplete := slices.ContainsFunc(seedColumns, func(want seedColumn) bool {
		_, ok := d.column(want.name)
		return !ok && !pgname.Optional(want.name)
	})
	var harmless []string
	for _, col := range d.extraColumns() {
		// While one is missing, any may be that one under another name.
		if col.notNull && col.defaultText == "" && col.identity == "" && !incomplete {
			d.warn(ErrColumn, fmt.Sprintf("give it one: alter table %s alter column %s set default ...", d.names.Table,
				sqlName(col.name)),
				"column %s is none of an outbox's and has no default, so every insert must give it, and "+
					"Posthaste's Go writer does not", col.name)
			continue
		}
		harmless = append(harmless, col.name)
	}
	if len(harmless) > 0 {
		d.note(ErrColumn, "nothing needs to be done: they are never read or written", "columns of your own: %s",
			strings.Join(harmless, ", "))
	}
}

// keys looks for what keeps an event from being written twice.
func (d *differences) compareKeys() {
	id, hasID := d.column("id")
	event, hasEvent := d.column("event_id")
	unique := func(column int16, alone bool) bool {
		return slices.ContainsFunc(d.indexes, func(x index) bool {
			return x.unique && x.valid && x.predicate == "" && x.keys > 0 &&
				(!alone && slices.Contains(x.columns[:x.keys], column) || x.keys == 1 && x.first == column)
		})
	}
	partitioned := d.table.kind == "p"
	switch name := d.names.Columns.SQL("event_id"); {
	case !hasEvent || unique(event.number, true):
	case partitioned:
		d.note(ErrUnique, "PostgreSQL can't do better unless the table is partitioned by it alone",
			"%s is not unique across partitions, so nothing keeps an event from being written twice", event.name)
	default:
		d.warn(ErrUnique, d.concurrently(event.name, name),
			"%s is not unique, so nothing keeps an event from being written twice", event.name)
	}
	primary := slices.ContainsFunc(d.indexes, func(x index) bool {
		return x.primary && x.valid && x.first == id.number && x.keys == 1
	})
	switch name := d.names.Columns.SQL("id"); {
	case !hasID || primary:
	case unique(id.number, true):
		d.note(ErrUnique, "nothing needs to be done: it is unique", "%s is not the primary key", id.name)
	case partitioned && unique(id.number, false):
		d.note(ErrUnique, "nothing needs to be done while all ids come from one sequence",
			"%s is unique only together with other columns", id.name)
	case partitioned:
		d.note(ErrUnique, "nothing needs to be done while all ids come from one sequence",
			"%s is not unique across partitions", id.name)
	default:
		d.warn(ErrUnique, d.concurrently(id.name, name),
			"%s is not unique: ids that repeat make the order of events a matter of chance", id.name)
	}
}

// concurrently says how to build a unique index beside the writers.
func (d *differences) concurrently(name, quoted string) string {
	return fmt.Sprintf("run: create unique index concurrently %s on %s (%s)",
		pgname.Quote("ux_"+d.names.Table.Name+"_"+name), d.names.Table, quoted)
}

func (d *differences) compareIndexes() {
	var others []string
	for _, x := range d.indexes {
		switch {
		case !x.valid && x.beingBuilt != 0:
			d.note(ErrIndex, "nothing needs to be done", "index %s is being built by process %d", x.name, x.beingBuilt)
		case !x.valid && d.isOurs(x) && d.table.kind == "r":
			if d.hasIndex() { // else it is a refusal
				d.warn(ErrIndex, "run: "+d.names.command("migrate up"),
					"index %s is invalid: its building was interrupted, and it slows every write", x.name)
			}
		case !x.valid:
			d.warn(ErrIndex, "run: reindex index concurrently "+x.name.String(), "index %s is invalid", x.name)
		case !x.constraint && !d.isOurs(x):
			others = append(others, x.name.String())
		}
	}
	if len(others) > 0 {
		d.note(ErrIndex, "drop those that nobody needs: drop index concurrently NAME",
			"indexes of your own, written with every event and again when it is marked: %s", strings.Join(others, ", "))
	}
}

func (d *differences) compareTriggers() {
	published, _ := d.column("published_at")
	for _, t := range d.extras.triggers {
		drop := fmt.Sprintf("drop trigger %s on %s", pgname.Quote(t.name), d.names.Table)
		marks := t.kind&triggerUpdate != 0 && (len(t.columns) == 0 || slices.Contains(t.columns, published.number))
		switch {
		case t.wakes:
			d.compareWakeUp(drop)
		case marks && t.kind&(triggerRow|triggerBefore) == triggerRow|triggerBefore:
			d.warn(ErrTrigger, "see that it returns the row unchanged in "+published.name+", or run: "+drop,
				"trigger %s runs before every update: where it puts %s back or returns null, an event is sent "+
					"again for ever", t.name, published.name)
		case marks:
			d.warn(ErrTrigger, "let it fire only for the columns that it is about (after update of ...), or run: "+drop,
				"trigger %s runs whenever events are marked", t.name)
		case t.kind&triggerInsert != 0 && t.kind&triggerBefore != 0:
			d.note(ErrTrigger, "see that it returns every row, or run: "+drop,
				"trigger %s runs before every insert: where it returns null, the event is not written", t.name)
		default:
			d.note(ErrTrigger, "nothing needs to be done, or run: "+drop, "trigger %s is on the table", t.name)
		}
	}
	for _, k := range d.extras.constraints {
		d.note(ErrTable, "if it may refuse an event, "+d.alter("drop constraint %s", pgname.Quote(k.name)),
			"constraint %s: %s", k.name, k.text)
	}
}

func (d *differences) compareRules() {
	for _, r := range d.extras.rules {
		if r.instead && r.event != "3" {
			continue // refused
		}
		d.warn(ErrRule, fmt.Sprintf("run: drop rule %s on %s", pgname.Quote(r.name), d.names.Table),
			"rule %s rewrites statements on the table: it may drop or double events", r.name)
	}
}

func (d *differences) compareStorage() {
	table := d.names.Table
	if d.table.persistence == "u" {
		d.warn(ErrUnlogged,
			"in a quiet hour, since it rewrites the table under its strongest lock, "+d.alter("set logged"),
			"%s is unlogged: a crash of PostgreSQL empties it, and committed events are lost", table)
	}
	if slices.ContainsFunc(d.table.options, switchesVacuumOff) {
		d.warn(ErrTable, d.alter("reset (autovacuum_enabled)"),
			"autovacuum is off for %s: dead rows pile up, and polls slow down", table)
	}
	if d.table.policies && !d.table.rowSecurity {
		d.note(ErrRowSecurity, "give every role that relays bypassrls, or: alter table "+table.String()+
			" disable row level security", "row-level security is on; it does not apply to role %s", d.role)
	}
	if d.table.kind == "p" {
		d.note(ErrPartitioned, "nothing needs to be done", "%s is partitioned", table)
	}
	if !d.extras.partition {
		for _, p := range d.extras.parents {
			d.note(ErrInherits, d.alter("no inherit %s", p), "%s inherits from %s", table, p)
		}
	}
}

// switchesVacuumOff reads a storage option, which PostgreSQL keeps as it was typed.
func switchesVacuumOff(option string) bool {
	name, value, _ := strings.Cut(option, "=")
	return name == "autovacuum_enabled" && slices.Contains([]string{"off", "false", "no", "0"}, strings.ToLower(value))
}
