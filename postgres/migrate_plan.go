package postgres

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"posthaste.dev/posthaste/internal/pgname"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationFile returns the text of one file. They are compiled in, so a missing one is a mistake of ours, which the
// tests find.
func migrationFile(name string) string {
	text, err := migrations.ReadFile("migrations/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}

// sideMigrations are the migrations of the side tables; the first one leads to version 1, and so on.
var sideMigrations = []string{"0001_side_tables"}

type plan struct {
	fresh   []Step // new objects, all in one transaction
	adopted []Step // on a table that stood before, each by itself
	busy    error  // what must end before the adopted steps; it may be another migration at the same steps
	notes   []string
}

// plan derives what Migrate does from what was found. The printed migration is the plan of an empty database, so
// the two can't differ.
func (c *catalog) plan(opts MigrateOptions) (plan, error) {
	var p plan
	if problems := c.refuseUp(opts); len(problems) > 0 {
		return p, &SchemaError{Outbox: c.names.Table.String(), Problems: problems}
	}
	if !c.sideSchema.exists {
		p.fresh = append(p.fresh, createSchema(c.names.Schema))
	}
	for i := c.version; i < len(sideMigrations); i++ {
		p.fresh = append(p.fresh, Step{fmt.Sprintf("bring side tables to version %d", i+1),
			c.names.sql(migrationFile(sideMigrations[i]+".up")) + "\n" +
				c.names.sql(fmt.Sprintf("insert into {{schema}}.schema_version (version) values (%d);", i+1))})
	}
	if c.table == nil {
		if !c.tableSchema.exists && c.names.Table.Schema != c.names.Schema {
			p.fresh = append(p.fresh, createSchema(c.names.Table.Schema))
		}
		p.fresh = append(p.fresh, createTable(c.names, opts.Headers),
			Step{"create its partial index", createIndex("create index", c.freeIndexName(), c.names) + ";"})
	}
	if s, needed := c.registerStep(opts); needed {
		p.fresh = append(p.fresh, s)
	}
	if c.table == nil {
		if opts.WakeUp == WakeUpOn {
			p.fresh = append(p.fresh, wakeStep(c.names))
		}
		return p, nil
	}
	err := c.planIndex(&p)
	if _, ok := c.column("headers"); opts.Headers && !ok && c.names.Columns.Has("headers") {
		// The one statement that needs the table for itself alone: while it waits, all writers queue behind it.
		p.adopted = append(p.adopted, Step{"add column headers",
			c.names.sql("set local lock_timeout = '2s';\nalter table {{table}} add column {{headers}} jsonb;")})
	}
	switch wakes := c.wakesUp(); {
	case opts.WakeUp == WakeUpOn && !wakes:
		p.adopted = append(p.adopted, wakeStep(c.names))
	case opts.WakeUp == WakeUpOff && wakes:
		p.adopted = append(p.adopted, sleepStep(c.names))
	}
	return p, err
}

// refuseUp lists what must be settled before a migration may begin.
func (c *catalog) refuseUp(opts MigrateOptions) []Problem {
	problems := c.judgeServer()
	role := pgname.Quote(c.role)
	deny := func(cause, grant string) {
		problems = append(problems, Problem{ErrRights, "role " + c.role + " may not " + cause,
			fmt.Sprintf("run: grant %s to %s, or let a role that may run the migration", grant, role)})
	}
	create := "create on database " + pgname.Quote(c.database)
	switch {
	case !c.sideSchema.exists && !c.mayCreate:
		deny("create schema "+c.names.Schema, create)
	case c.sideSchema.exists && !c.sideSchema.mayUse:
		deny("use schema "+c.names.Schema, "usage, create on schema "+pgname.Quote(c.names.Schema))
	case c.version > SchemaVersion:
		problems = append(problems, c.judgeSide()...)
	case c.version == 0 && len(c.side) > 0 && !c.hasSide("schema_version"):
		problems = append(problems, Problem{ErrForeignTable,
			fmt.Sprintf("schema %s holds a table %s that is not Posthaste's", c.names.Schema, c.side[0].name),
			"choose another side schema by POSTHASTE_SCHEMA"})
	case c.version == 0 && len(c.side) > 0 && !c.sideReadable("schema_version"):
		deny("read the side tables", c.names.sql("select on all tables in schema {{schema}}"))
	case c.sideSchema.exists && c.version < SchemaVersion && !c.sideSchema.mayCreate:
		deny("create tables in schema "+c.names.Schema, "create on schema "+pgname.Quote(c.names.Schema))
	}
	switch {
	case c.table != nil && c.table.kind != "r" && c.table.kind != "p":
		problems = append(problems, Problem{ErrNoTable, fmt.Sprintf("%s is no table", c.names.Table),
			"choose another name by POSTHASTE_TABLE"})
	case c.table != nil:
		problems = slices.Concat(problems, c.judgeColumns(), c.judgeExtras())
	case !c.tableSchema.exists && !c.mayCreate && c.names.Table.Schema != c.names.Schema:
		deny("create schema "+c.names.Table.Schema, create)
	case c.tableSchema.exists && !c.tableSchema.mayCreate:
		deny("create tables in schema "+c.names.Table.Schema, "create on schema "+pgname.Quote(c.names.Table.Schema))
	}
	if opts.WakeUp == WakeUpOn {
		problems = append(problems, c.refuseWakeUp()...)
	}
	if r := c.register; r != nil && opts.Lanes != 0 && opts.Lanes != r.lanes {
		problems = append(problems,
			Problem{ErrLanes, fmt.Sprintf("the outbox has %d lanes, not %d", r.lanes, opts.Lanes),
				"leave their number out: a migration doesn't change it"})
	}
	return problems
}

func createSchema(name string) Step {
	return Step{"create schema " + name, fmt.Sprintf("create schema %[1]s;\ncomment on schema %[1]s is %[2]s;",
		pgname.Quote(name), literal(sideMark))}
}

func createTable(names Names, headers bool) Step {
	column := ""
	if headers && names.Columns.Has("headers") {
		column = ",\n    {{headers}}         jsonb"
	}
	var lines []string
	for line := range strings.Lines(migrationFile("outbox_table")) {
		// A column that the mapping does without, and one that shares another's place, are not made.
		usual, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "{{"), "}}")
		_, shares := names.Columns.Shared()[usual]
		if !shares && (names.Columns.Has(usual) || !slices.Contains(pgname.ColumnNames(), usual)) {
			lines = append(lines, line)
		}
	}
	text := strings.Replace(strings.Join(lines, ""), "{{more}}", column, 1)
	return Step{"create table " + names.Table.String(), names.sql(text)}
}

// registerStep enters the outbox into the side tables, or corrects who made a table that was dropped by hand.
func (c *catalog) registerStep(opts MigrateOptions) (Step, bool) {
	if c.register != nil {
		if c.table != nil || c.register.created {
			return Step{}, false
		}
		return Step{"note that migrate made the table",
			c.names.sql("update {{schema}}.outbox set created = true " +
				"where topic_group = '' and name = {{literal}};")}, true
	}
	lanes := opts.Lanes
	if lanes == 0 {
		lanes = DefaultLanes
	}
	// Advisory locks belong to the database, so the class must differ between side schemas too: it is drawn from both
	// names. It is positive, the writers' own class is negative.
	class := fmt.Sprintf("hashtext(%s) & 2147483647",
		literal("posthaste member "+pgname.Quote(c.names.Schema)+" "+c.names.Table.String()))
	return Step{fmt.Sprintf("register the outbox with %d lanes", lanes), c.names.sql(`
insert into {{schema}}.outbox (name, lock_class, created, lanes)
values ({{literal}}, {{class}}, {{created}}, {{lanes}});
insert into {{schema}}.lane (outbox, lane)
select o.id, l.lane from {{schema}}.outbox o, generate_series(0, o.lanes - 1) l (lane)
where o.name = {{literal}} and o.topic_group = '';`[1:],
		"{{class}}", class, "{{created}}", strconv.FormatBool(c.table == nil), "{{lanes}}", strconv.Itoa(lanes))}, true
}

// MigrateSQL returns what Migrate runs on an empty database, for psql or for a review.
func MigrateSQL(names Names, opts MigrateOptions) (string, error) {
	if err := opts.check(); err != nil {
		return "", fmt.Errorf("print migration: %w", err)
	}
	free := schemaFacts{exists: true, mayUse: true, mayCreate: true}
	empty := &catalog{names: names, mayCreate: true}
	if names.Table.Schema == "public" {
		empty.tableSchema = free
	}
	if names.Schema == "public" {
		empty.sideSchema = free
	}
	p, err := empty.plan(opts)
	if err != nil {
		return "", fmt.Errorf("print migration: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- The outbox %s, side tables version %d.\nbegin;\n", names.Table, SchemaVersion)
	for _, s := range p.fresh {
		fmt.Fprintf(&b, "\n-- %s\n%s\n", s.What, s.SQL)
	}
	b.WriteString("\ncommit;\n")
	return b.String(), nil
}

// literal quotes a string constant. Backslashes get the E form, which means the same whatever
// standard_conforming_strings is.
func literal(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}
