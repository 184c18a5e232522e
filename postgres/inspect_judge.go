package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"posthaste.dev/posthaste/internal/pgname"
)

// seedColumns are the columns of the table that migrate makes, by their usual names. All but the last are not null
// there: a relay that met a null where it needs a value could neither send the event nor pass it.
var seedColumns = []seedColumn{
	{"id", "bigint", []uint32{pgtype.Int8OID, pgtype.Int4OID}},
	{"event_id", "uuid", []uint32{pgtype.UUIDOID}},
	{"aggregate_type", "text", textTypes},
	{"aggregate_id", "text", textTypes},
	{"event_type", "text", textTypes},
	{"payload", "jsonb", []uint32{pgtype.JSONBOID, pgtype.JSONOID}},
	{"topic", "text", textTypes},
	{"partition_key", "text", textTypes},
	{"created_at", "timestamptz", []uint32{pgtype.TimestamptzOID}},
	{"published_at", "timestamptz", []uint32{pgtype.TimestamptzOID}},
}

type seedColumn struct {
	name, typeName string
	types          []uint32
}

var textTypes = []uint32{pgtype.TextOID, pgtype.VarcharOID}

// column returns the column that stands for a usual one.
func (c *catalog) column(usual string) (column, bool) {
	name := c.names.Columns.Name(usual)
	i := slices.IndexFunc(c.columns, func(col column) bool { return col.name == name })
	if i < 0 {
		return column{}, false
	}
	return c.columns[i], true
}

// outbox returns the facts that a look holds by itself.
func (c *catalog) outbox() *Outbox {
	o := &Outbox{Names: c.names, Version: c.version}
	o.Server = Server{Version: c.serverVersion, Started: c.started, Database: c.database}
	if r := c.register; r != nil {
		o.ID, o.BaseID, o.LockClass, o.Created = r.id, r.base, r.lockClass, r.created
		o.Lanes, o.NextLanes, o.Generation, o.Groups = r.lanes, r.nextLanes, r.generation, r.groups
		o.Cluster = r.cluster
	}
	if c.table != nil {
		o.OID, o.WakesUp = c.table.oid, c.wakesUp()
	}
	o.MayDelete = c.table != nil && c.table.mayDelete
	if col, ok := c.column("headers"); ok {
		o.HasHeaders = col.typeOID == pgtype.JSONBOID
	}
	id, _ := c.column("id")
	o.ShortIDs = id.typeOID == pgtype.Int4OID
	for _, want := range seedColumns {
		if _, ok := c.column(want.name); !ok && pgname.Optional(want.name) {
			o.Lacks = append(o.Lacks, want.name)
		}
	}
	o.Warnings, o.Notes = c.differ()
	return o
}

// judge returns a *SchemaError with everything that keeps a relay from working, or nil.
func (c *catalog) judge(rights []Right) error {
	if len(rights) == 0 {
		rights = []Right{RightUpdate}
	}
	c.looker = c.looker || slices.Equal(rights, []Right{RightRead})
	problems := slices.Concat(c.judgeTable(rights), c.judgeSide())
	if !c.looker {
		problems = slices.Concat(c.judgeServer(), problems)
	}
	if len(problems) == 0 {
		return nil
	}
	return &SchemaError{Outbox: c.names.Table.String(), Problems: problems}
}

func (c *catalog) judgeServer() []Problem {
	switch {
	case c.standby:
		return []Problem{{ErrReadOnly, "the server is a standby, which can't be written to",
			"connect to the primary (target_session_attrs=read-write picks it from several hosts)"}}
	case c.readOnly:
		return []Problem{{ErrReadOnly, fmt.Sprintf("transactions of role %s are read-only here", c.role),
			"set default_transaction_read_only to off for the role or the database"}}
	}
	return nil
}

func (c *catalog) judgeTable(rights []Right) []Problem {
	if c.table == nil {
		return []Problem{{ErrNoTable, fmt.Sprintf("table %s is missing in database %s", c.names.Table, c.database),
			"run: " + c.names.command("migrate up") + ", or name another by POSTHASTE_TABLE"}}
	}
	if c.table.kind != "r" && c.table.kind != "p" {
		return []Problem{{ErrNoTable, fmt.Sprintf("%s is no table", c.names.Table),
			"name the table by POSTHASTE_TABLE"}}
	}
	problems := c.judgeColumns()
	if !c.hasIndex() {
		problems = append(problems, Problem{ErrIndex,
			fmt.Sprintf("no valid index on (%s) where %s is null on %s%s, so every poll would read the whole table",
				c.names.Columns.Name("id"), c.names.Columns.Name("published_at"), c.names.Table, c.nearMisses()),
			"run: " + c.names.command("migrate up")})
	}
	if c.table.rowSecurity {
		problems = append(problems, Problem{ErrRowSecurity,
			fmt.Sprintf("row-level security on %s applies to role %s and would hide events", c.names.Table, c.role),
			fmt.Sprintf("run: alter role %s bypassrls, or: alter table %s disable row level security",
				pgname.Quote(c.role), c.names.Table)})
	}
	problems = append(problems, c.judgeExtras()...)
	return append(problems, c.judgeTableRights(rights)...)
}

func (c *catalog) judgeColumns() []Problem {
	var problems []Problem
	for _, want := range seedColumns {
		col, ok := c.column(want.name)
		optional, mapped := pgname.Optional(want.name), c.names.Columns.Name(want.name) != want.name
		fix := fmt.Sprintf("run: alter table %s alter column %s ", c.names.Table, c.names.Columns.SQL(want.name))
		cause := ""
		switch {
		case !ok && !c.names.Columns.Has(want.name), !ok && optional && !mapped:
		case !ok:
			cause, fix = c.missingColumn(want.name, want.typeName)
		case !slices.Contains(want.types, col.typeOID):
			cause = fmt.Sprintf("is %s, want %s", col.typeName, want.typeName)
			fix = "name another column by POSTHASTE_COLUMNS=" + want.name +
				"=NAME, or change its type (this rewrites the table)"
			if optional {
				fix = "do without it by POSTHASTE_COLUMNS=" + want.name +
					"=, or change its type (this rewrites the table)"
			}
		case col.loose:
			cause = "has a collation that is not deterministic: different texts would count as one topic or key"
			fix += "type " + col.typeName + ` collate "C" (its indexes are built anew)`
		case want.name == "published_at" && col.notNull:
			cause, fix = "may not be null, so every event counts as published", fix+"drop not null"
		case want.name == "published_at" && col.defaultText != "":
			cause, fix = "has a default, so new events count as published", fix+"drop default"
		case want.name != "published_at" && !optional && !col.notNull:
			cause, fix = "may be null, and such an event can't be sent", c.setNotNull(col)
		}
		if cause != "" {
			problems = append(problems, Problem{ErrColumn,
				fmt.Sprintf("%s: column %s %s", c.names.Table, c.names.Columns.Name(want.name), cause), fix})
		}
	}
	return problems
}

// missingColumn says what to do about a column that stands under no known name.
func (c *catalog) missingColumn(usual, typeName string) (cause, fix string) {
	if name := c.names.Columns.Name(usual); name != usual {
		return fmt.Sprintf("(%s), which POSTHASTE_COLUMNS names for %s, is missing", typeName, usual),
			"correct POSTHASTE_COLUMNS"
	}
	example := "NAME"
	if usual == "partition_key" {
		example = "aggregate_id" // the convention's default
	}
	// The only spare column of a telling type is a fair guess; a text could be anything.
	alike := slices.DeleteFunc(c.extraColumns(), func(x column) bool { return x.typeName != typeName })
	if len(alike) == 1 && typeName != "text" {
		example = alike[0].name
		if schema, err := pgname.ParseSchema(example); err != nil || schema != example {
			example = pgname.Quote(example)
		}
	}
	return fmt.Sprintf("(%s) is missing", typeName), fmt.Sprintf("name the column that stands for it, such as "+
		"POSTHASTE_COLUMNS=%s=%s, or another table by POSTHASTE_TABLE", usual, example)
}

// setNotNull returns the statements that forbid nulls without holding writers up: the check is validated beside them,
// and PostgreSQL then takes its word instead of reading the whole table under its strongest lock.
func (c *catalog) setNotNull(col column) string {
	check := pgname.Quote(col.name + "_not_null")
	return fmt.Sprintf("run: alter table %[1]s add constraint %[3]s check (%[2]s is not null) not valid; "+
		"alter table %[1]s validate constraint %[3]s; alter table %[1]s alter column %[2]s set not null; "+
		"alter table %[1]s drop constraint %[3]s", c.names.Table, sqlName(col.name), check)
}

// sqlName returns a column's name as it stands in SQL: quoted, unless it is one of the usual ones.
func sqlName(name string) string {
	if slices.Contains(pgname.ColumnNames(), name) {
		return name
	}
	return pgname.Quote(name)
}

// isOurs tells whether an index is the one that polls need, valid or not. More columns behind the first do no harm.
func (c *catalog) isOurs(x index) bool {
	id, ok := c.column("id")
	published := c.names.Columns.Name("published_at")
	return ok && x.method == "btree" && x.first == id.number &&
		(x.predicate == "("+published+" IS NULL)" || x.predicate == "("+pgname.Quote(published)+" IS NULL)")
}

func (c *catalog) hasIndex() bool {
	return slices.ContainsFunc(c.indexes, func(x index) bool { return c.isOurs(x) && x.valid })
}

// nearMisses names the indexes that somebody could take for the one that is missing.
func (c *catalog) nearMisses() string {
	var found []string
	for _, x := range c.indexes {
		switch {
		case c.isOurs(x) && x.beingBuilt != 0:
			found = append(found, fmt.Sprintf("%s is being built by process %d", x.name, x.beingBuilt))
		case c.isOurs(x):
			found = append(found, fmt.Sprintf("%s is invalid: its building was interrupted", x.name))
		case strings.Contains(x.predicate, "published_at") || x.name.Name == c.indexBase():
			found = append(found, fmt.Sprintf("%s is another: %s", x.name, x.definedText))
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (" + strings.Join(found, "; ") + ")"
}

// judgeTableRights asks for the columns and not for the table, since grants may be as narrow as that.
func (c *catalog) judgeTableRights(rights []Right) []Problem {
	role := pgname.Quote(c.role)
	var problems []Problem
	if !c.tableSchema.mayUse {
		problems = append(problems, Problem{ErrRights,
			fmt.Sprintf("role %s may not use schema %s", c.role, c.names.Table.Schema),
			fmt.Sprintf("run: grant usage on schema %s to %s", pgname.Quote(c.names.Table.Schema), role)})
	}
	var missing []string
	for _, want := range seedColumns {
		if col, ok := c.column(want.name); ok && !col.mayRead {
			missing = append(missing, "select")
			break
		}
	}
	if col, ok := c.column("published_at"); ok && slices.Contains(rights, RightUpdate) && !col.mayPut {
		missing = append(missing, "update")
	}
	if slices.Contains(rights, RightDelete) && !c.table.mayDelete {
		missing = append(missing, "delete")
	}
	if len(missing) > 0 {
		list := strings.Join(missing, ", ")
		problems = append(problems,
			Problem{ErrRights, fmt.Sprintf("role %s lacks %s on %s", c.role, list, c.names.Table),
				fmt.Sprintf("run: grant %s on %s to %s", list, c.names.Table, role)})
	}
	return problems
}

func (c *catalog) judgeSide() []Problem {
	up := "run: " + c.names.command("migrate up")
	schema, role := pgname.Quote(c.names.Schema), pgname.Quote(c.role)
	switch {
	case len(c.side) == 0:
		return []Problem{{ErrNoSideSchema, fmt.Sprintf("the side tables are missing in schema %s", schema), up}}
	case !c.sideSchema.mayUse:
		return []Problem{{ErrRights, fmt.Sprintf("role %s may not use schema %s", c.role, c.names.Schema),
			fmt.Sprintf("run: grant usage on schema %s to %s", schema, role)}}
	case c.version > SchemaVersion:
		return []Problem{{ErrSchemaNewer,
			fmt.Sprintf("the side tables in schema %s have version %d, this program knows up to %d",
				schema, c.version, SchemaVersion), "run a newer posthaste"}}
	case c.sideReadable("schema_version") && c.version < MinSchemaVersion:
		return []Problem{{ErrSchemaOlder,
			fmt.Sprintf("the side tables in schema %s have version %d, this program needs %d or later",
				schema, c.version, MinSchemaVersion), up}}
	}
	var problems []Problem
	for _, t := range c.side {
		if c.looker {
			t.missing = slices.DeleteFunc(slices.Clone(t.missing), func(p string) bool { return p != "SELECT" })
		}
		if len(t.missing) > 0 {
			list, on := strings.ToLower(strings.Join(t.missing, ", ")), schema+"."+pgname.Quote(t.name)
			problems = append(problems, Problem{ErrRights, fmt.Sprintf("role %s lacks %s on %s", c.role, list, on),
				fmt.Sprintf("run: grant %s on %s to %s", list, on, role)})
		}
	}
	if len(c.side) < len(sideTables()) {
		problems = append(problems,
			Problem{ErrNoSideSchema, fmt.Sprintf("schema %s holds only %d of the %d side tables",
				schema, len(c.side), len(sideTables())), up})
	}
	if c.register == nil && c.sideReadable("outbox") && c.version > 0 && c.names.Group != "" {
		return append(problems, c.names.noGroup())
	}
	if c.register == nil && c.sideReadable("outbox") && c.version > 0 {
		problems = append(problems, Problem{ErrNotRegistered,
			fmt.Sprintf("%s is not registered in schema %s", c.names.Table, schema), up})
	}
	return problems
}
