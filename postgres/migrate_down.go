package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/pgname"
)

// MigrateDown takes an outbox out of the database: its row and lanes, the table if Migrate made it, and with the last
// outbox the side tables and each schema that Migrate made and nobody else uses. An adopted table stays with all that
// it holds.
//
// It refuses with ErrUnpublished while events wait and with ErrMembers while relays run. A writer can't slip an event
// in between: the table is locked before the look and dropped in the same transaction. All of it happens or nothing.
func MigrateDown(ctx context.Context, conn *pgx.Conn, names Names, opts MigrateOptions) (*Migration, error) {
	m := &Migration{}
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		err := m.remove(ctx, tx, names, opts)
		if err != nil {
			m.Steps = nil
		}
		return err
	})
	if err != nil {
		return m, fmt.Errorf("migrate down: %w", err)
	}
	return m, nil
}

const (
	// With row_security off a policy that would hide events makes the look fail instead.
	downSettingsSQL = `
select set_config('statement_timeout', '0', true), set_config('lock_timeout', '2s', true),
       set_config('row_security', 'off', true)`
	lockTableSQL   = `lock table {{table}} in access exclusive mode`
	lockOutboxSQL  = `select from {{schema}}.outbox where name = $1 order by id for update`
	countOthersSQL = `select count(*) from {{schema}}.outbox where name <> $1`
	emptySchemaSQL = `
select not exists (select from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid)
from pg_namespace n where n.nspname = $1`
)

func (m *Migration) remove(ctx context.Context, tx pgx.Tx, names Names, opts MigrateOptions) error {
	if _, err := tx.Exec(ctx, downSettingsSQL); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, migrateLockSQL, names.Schema); err != nil {
		return translate(err)
	}
	c, err := look(ctx, tx, names)
	if err != nil {
		return translate(err)
	}
	if problems := c.refuseDown(); len(problems) > 0 {
		return &SchemaError{Outbox: names.Table.String(), Problems: problems}
	}
	if c.version == 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("schema %s holds no side tables: nothing to do", names.Schema))
		return nil
	}
	var others int
	if err := tx.QueryRow(ctx, names.sql(countOthersSQL), names.Table.String()).Scan(&others); err != nil {
		return err
	}
	if c.register == nil && others > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%s is not registered: nothing to do", names.Table))
		return nil
	}
	if c.register != nil {
		if err := c.refuseInUse(ctx, tx, opts.DryRun); err != nil {
			return err
		}
	}
	if c.table != nil && (c.register == nil || !c.register.created) {
		m.Notes = append(m.Notes, fmt.Sprintf("table %s was there before, so it stays", names.Table))
	}
	for _, s := range c.planDown(others == 0) {
		if opts.DryRun {
			m.Steps = append(m.Steps, s)
		} else if err := m.run(ctx, tx, s, opts); err != nil {
			return err
		}
	}
	return m.dropSchemas(ctx, tx, c, opts)
}

func (c *catalog) refuseDown() []Problem {
	problems := c.judgeServer()
	if c.version > SchemaVersion || len(c.side) > 0 && (!c.sideSchema.mayUse || !c.sideReadable("schema_version")) {
		problems = append(problems, c.judgeSide()...)
	}
	return problems
}

func (c *catalog) planDown(last bool) []Step {
	var steps []Step
	if c.table != nil && c.register != nil && c.register.created {
		steps = append(steps, Step{"drop table " + c.names.Table.String(), c.names.sql("drop table {{table}};")})
	}
	if c.wakesUp() && len(steps) == 0 {
		steps = append(steps, sleepStep(c.names))
	}
	if c.register != nil {
		steps = append(steps, Step{"take the outbox out of the side tables",
			c.names.sql("delete from {{schema}}.outbox where name = {{literal}};")})
	}
	if last {
		for _, name := range slices.Backward(sideMigrations[:c.version]) {
			steps = append(steps, Step{"drop side tables", c.names.sql(migrationFile(name + ".down"))})
		}
	}
	return steps
}

// dropSchemas drops the schemas that migrate made, once nothing is in them. What a dry run has not dropped is still
// there, so it says what would be tried.
func (m *Migration) dropSchemas(ctx context.Context, tx pgx.Tx, c *catalog, opts MigrateOptions) error {
	ours := []string{}
	if c.sideSchema.ours {
		ours = append(ours, c.names.Schema)
	}
	if c.tableSchema.ours && c.names.Table.Schema != c.names.Schema {
		ours = append(ours, c.names.Table.Schema)
	}
	for _, name := range ours {
		step := Step{"drop schema " + name, fmt.Sprintf("drop schema %s;", pgname.Quote(name))}
		if opts.DryRun {
			m.Notes = append(m.Notes, fmt.Sprintf("schema %s is dropped if nothing else is in it", name))
			continue
		}
		var empty bool
		if err := tx.QueryRow(ctx, emptySchemaSQL, name).Scan(&empty); err != nil {
			return err
		}
		if !empty {
			continue
		}
		if err := m.run(ctx, tx, step, opts); err != nil {
			return err
		}
	}
	return nil
}

// One behind a pooler is taken for alive while its last beat is younger than any sensible lease.
const membersSQL = `
select m.name from {{schema}}.member m join {{schema}}.outbox o on o.id = m.outbox
where o.name = $1 and case when m.session then ` + lockHeld + `
    else m.beat_at > clock_timestamp() - interval '1 minute' end
order by m.name`

const (
	unpublishedSQL = `select count(*) from (select from {{table}} where {{published_at}} is null limit $1) waiting`
	countedAtMost  = 1000
)

// refuseInUse looks without a lock first, so that a refusal disturbs nobody. Then come the locks and the look that
// counts: on the outbox's row, which a relay that joins must refer to, and on the table if it is to be dropped.
func (c *catalog) refuseInUse(ctx context.Context, tx pgx.Tx, dryRun bool) error {
	if err := c.lookInUse(ctx, tx); err != nil || dryRun {
		return err
	}
	if _, err := tx.Exec(ctx, c.names.sql(lockOutboxSQL), c.names.Table.String()); err != nil {
		return translate(err)
	}
	if c.table != nil && c.register.created {
		if _, err := tx.Exec(ctx, c.names.sql(lockTableSQL)); err != nil {
			return fmt.Errorf("lock table %s: %w", c.names.Table, translate(err))
		}
	}
	return c.lookInUse(ctx, tx)
}

// refuseMembers refuses while relays run on the outbox, of whichever group.
func refuseMembers(ctx context.Context, tx pgx.Tx, names Names) error {
	rows, err := tx.Query(ctx, names.sql(membersSQL), names.Table.String())
	if err != nil {
		return err
	}
	members, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return translate(err)
	}
	if len(members) > 0 {
		return Problem{ErrMembers,
			fmt.Sprintf("relays are running on %s: %s", names.Table, strings.Join(members, ", ")), "stop them first"}
	}
	return nil
}

func (c *catalog) lookInUse(ctx context.Context, tx pgx.Tx) error {
	if err := refuseMembers(ctx, tx, c.names); err != nil {
		return err
	}
	if _, ok := c.column("published_at"); !ok {
		return nil
	}
	var waiting int
	if err := tx.QueryRow(ctx, c.names.sql(unpublishedSQL), countedAtMost+1).Scan(&waiting); err != nil {
		return translate(err)
	}
	count := fmt.Sprintf("%d unpublished events", waiting)
	switch {
	case waiting == 0:
		return nil
	case waiting == 1:
		count = "1 unpublished event"
	case waiting > countedAtMost:
		count = fmt.Sprintf("more than %d unpublished events", countedAtMost)
	}
	return Problem{ErrUnpublished, fmt.Sprintf("%s holds %s", c.names.Table, count),
		"let a relay publish them, or delete them yourself, then run it again"}
}
