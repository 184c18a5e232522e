package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/pgname"
)

// reader is what looking needs: a connection, or a transaction that must see its own changes.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// catalog is what one look found, as plain facts. The empty one is an empty database. Problems, repairs and the
// printed migration all follow from it alone.
type catalog struct {
	names  Names
	looker bool // whoever asks changes nothing

	database, role string
	serverVersion  int
	started        time.Time
	standby        bool
	readOnly       bool
	mayCreate      bool // schemas in this database
	maxPrepared    int  // transactions

	tableSchema, sideSchema schemaFacts

	table   *tableFacts // nil: missing
	columns []column
	extras  extras
	indexes []index
	taken   []string // names in the table's schema that begin like the partial index, read where that is missing
	// Of a partitioned table whose index is missing: its partitions, the whole first, and names that look like those of
	// their indexes.
	partitions []partition
	takenIn    []pgname.Table
	side       []sideTable // those of sideTables that stand
	version    int
	register   *registration // nil: not registered, or unreadable
}

type schemaFacts struct{ exists, mayUse, mayCreate, ours bool }

type tableFacts struct {
	oid         uint32
	kind        string // of pg_class: r plain, p partitioned, others are no tables
	rowSecurity bool   // in force for this role
	policies    bool   // row-level security is on, whoever it is in force for
	owned       bool   // by a role that this one may act as
	mayDelete   bool
	persistence string // of pg_class: p permanent, u unlogged, t temporary
	identity    string // replica identity of pg_class
	options     []string
}

type column struct {
	number          int16
	name            string
	typeOID         uint32
	typeName        string
	notNull         bool
	loose           bool // different texts may be equal by its collation
	defaultText     string
	identity        string
	generated       string
	mayRead, mayPut bool
}

type index struct {
	oid         uint32
	name        pgname.Table
	method      string
	first       int16 // number of its first column, 0: an expression
	columns     []int16
	keys        int
	unique      bool
	primary     bool
	constraint  bool // belongs to a primary key or unique constraint
	predicate   string
	valid       bool
	beingBuilt  int32 // the backend that builds an index on this table now, 0: none
	definedText string
}

type sideTable struct {
	name    string
	missing []string // privileges that a relay needs
}

type registration struct {
	id, base         int32
	lockClass        int32
	created          bool
	lanes, nextLanes int
	generation       int64
	groups           []string // names of the groups of the outbox's topics
	cluster          string   // id of the Kafka cluster that the outbox belongs to, "" until one is known
}

// sideMark is the comment on schemas that migrate made, and may drop when they are empty.
const sideMark = "made by posthaste migrate"

// sideRights lists what a relay needs on each side table. Members themselves carry out a change of the lanes' number.
var sideRights = map[string][]string{
	"schema_version": {"SELECT"},
	"outbox":         {"SELECT", "UPDATE"},
	"member":         {"SELECT", "INSERT", "UPDATE", "DELETE"},
	"lane":           {"SELECT", "INSERT", "UPDATE", "DELETE"},
	"parked":         {"SELECT", "INSERT", "UPDATE", "DELETE"},
	"pause":          {"SELECT"},
	"topic_look":     {"SELECT"},
	"audit":          {"INSERT"},
}

func sideTables() []string {
	return []string{"schema_version", "outbox", "member", "lane", "parked", "pause", "topic_look", "audit"}
}

// look reads the catalog. It asks for rights before it reads anything that needs them, so a missing right is a fact
// and not an error, and it names every object by its schema. A right on what was dropped meanwhile is null; it counts
// as missing.
func look(ctx context.Context, db reader, names Names) (*catalog, error) {
	c := &catalog{names: names}
	for _, read := range []func(context.Context, reader) error{
		c.readSession, c.readTable, c.readColumns, c.readIndexes, c.readPartitions, c.readExtras, c.readSide,
		c.readRegistration,
	} {
		if err := read(ctx, db); err != nil {
			return nil, fmt.Errorf("inspect outbox %s: %w", names.Table, err)
		}
	}
	return c, nil
}

const sessionSQL = `
select current_database(), current_user, current_setting('server_version_num')::int, pg_is_in_recovery(),
       current_setting('transaction_read_only')::bool, has_database_privilege(current_database(), 'create'),
       current_setting('max_prepared_transactions')::int, pg_postmaster_start_time()`

const schemaSQL = `
select n.nspname, coalesce(has_schema_privilege(n.oid, 'usage'), false),
       coalesce(has_schema_privilege(n.oid, 'create'), false),
       coalesce(obj_description(n.oid, 'pg_namespace') = $3, false)
from pg_namespace n where n.nspname in ($1, $2)`

func (c *catalog) readSession(ctx context.Context, db reader) error {
	err := db.QueryRow(ctx, sessionSQL).
		Scan(&c.database, &c.role, &c.serverVersion, &c.standby, &c.readOnly, &c.mayCreate,
			&c.maxPrepared, &c.started)
	if err != nil {
		return err
	}
	rows, err := db.Query(ctx, schemaSQL, c.names.Table.Schema, c.names.Schema, sideMark)
	if err != nil {
		return err
	}
	var name string
	s := schemaFacts{exists: true}
	_, err = pgx.ForEachRow(rows, []any{&name, &s.mayUse, &s.mayCreate, &s.ours}, func() error {
		if name == c.names.Table.Schema {
			c.tableSchema = s
		}
		if name == c.names.Schema {
			c.sideSchema = s
		}
		return nil
	})
	return err
}

const tableSQL = `
select c.oid, c.relkind::text, row_security_active(c.oid), c.relrowsecurity, pg_has_role(c.relowner, 'usage'),
       coalesce(has_table_privilege(c.oid, 'delete'), false), c.relpersistence::text, c.relreplident::text,
       coalesce(c.reloptions, '{}')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2`

func (c *catalog) readTable(ctx context.Context, db reader) error {
	var t tableFacts
	err := db.QueryRow(ctx, tableSQL, c.names.Table.Schema, c.names.Table.Name).
		Scan(&t.oid, &t.kind, &t.rowSecurity, &t.policies, &t.owned, &t.mayDelete, &t.persistence, &t.identity,
			&t.options)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	c.table = &t
	return err
}

const columnsSQL = `
select a.attnum, a.attname, a.atttypid, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       exists (select from pg_collation l where l.oid = a.attcollation and not l.collisdeterministic),
       coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity::text, a.attgenerated::text,
       coalesce(has_column_privilege(a.attrelid, a.attnum, 'select'), false),
       coalesce(has_column_privilege(a.attrelid, a.attnum, 'update'), false)
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum`

func (c *catalog) readColumns(ctx context.Context, db reader) error {
	if c.table == nil {
		return nil
	}
	rows, err := db.Query(ctx, columnsSQL, c.table.oid)
	if err != nil {
		return err
	}
	var col column
	_, err = pgx.ForEachRow(rows, []any{&col.number, &col.name, &col.typeOID, &col.typeName, &col.notNull,
		&col.loose, &col.defaultText, &col.identity, &col.generated, &col.mayRead, &col.mayPut}, func() error {
		c.columns = append(c.columns, col)
		return nil
	})
	return err
}

const sideSQL = `
select c.relname, p.privilege, coalesce(has_table_privilege(c.oid, p.privilege), false)
from pg_class c join pg_namespace n on n.oid = c.relnamespace,
     unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p (privilege)
where n.nspname = $1 and c.relname = any($2)
order by c.relname, p.privilege`

func (c *catalog) readSide(ctx context.Context, db reader) error {
	rows, err := db.Query(ctx, sideSQL, c.names.Schema, sideTables())
	if err != nil {
		return err
	}
	var name, privilege string
	var granted bool
	_, err = pgx.ForEachRow(rows, []any{&name, &privilege, &granted}, func() error {
		if n := len(c.side); n == 0 || c.side[n-1].name != name {
			c.side = append(c.side, sideTable{name: name})
		}
		if !granted && slices.Contains(sideRights[name], privilege) {
			t := &c.side[len(c.side)-1]
			t.missing = append(t.missing, privilege)
		}
		return nil
	})
	return err
}

// hasSide tells whether a side table stands.
func (c *catalog) hasSide(name string) bool {
	return slices.ContainsFunc(c.side, func(t sideTable) bool { return t.name == name })
}

// sideReadable tells whether a side table stands and may be read by this role.
func (c *catalog) sideReadable(name string) bool {
	return c.sideSchema.mayUse && slices.ContainsFunc(c.side, func(t sideTable) bool {
		return t.name == name && !slices.Contains(t.missing, "SELECT")
	})
}

const (
	versionSQL  = `select coalesce(max(version), 0) from {{schema}}.schema_version`
	registerSQL = `
select o.id, o.lock_class, o.created, o.lanes, coalesce(o.next_lanes, 0), o.generation,
       array(select g.topic_group from {{schema}}.outbox g where g.name = o.name and g.topic_group <> '' order by 1),
       b.id, coalesce(b.cluster_id, '')
from {{schema}}.outbox o join {{schema}}.outbox b on b.name = o.name and b.topic_group = ''
where o.name = $1 and o.topic_group = $2`
)

func (c *catalog) readRegistration(ctx context.Context, db reader) error {
	if !c.sideReadable("schema_version") {
		return nil
	}
	if err := db.QueryRow(ctx, c.names.sql(versionSQL)).Scan(&c.version); err != nil {
		return err
	}
	// A newer version may have changed the table beyond what this query knows.
	if c.version > SchemaVersion || !c.sideReadable("outbox") {
		return nil
	}
	var r registration
	err := db.QueryRow(ctx, c.names.sql(registerSQL), c.names.Table.String(), c.names.Group).
		Scan(&r.id, &r.lockClass, &r.created, &r.lanes, &r.nextLanes, &r.generation, &r.groups,
			&r.base, &r.cluster)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	c.register = &r
	return err
}
