package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
)

// Several replicas of a service migrate as they start: svix/svix-webhooks#2589, mcp-hangar/mcp-hangar PR#812. Nothing
// in Migrate retries or swallows a server's error, so that eight without an error mean a server log without one.
func TestMigrateEightAtOnce(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		_, poor := d.role()
		conns := []*pgx.Conn{poor}
		for range 8 {
			conns = append(conns, connect(t, d.config))
		}
		for range 7 {
			errs := make([]error, len(conns))
			var runs sync.WaitGroup
			for i, conn := range conns {
				runs.Go(func() { _, errs[i] = postgres.Migrate(t.Context(), conn, n, postgres.MigrateOptions{}) })
			}
			runs.Wait()
			wantProblem(t, errs[0], postgres.ErrRights, "")
			if err := errors.Join(errs[1:]...); err != nil {
				t.Fatal(err)
			}
			if got := query(t, d.admin, "select array_agg(version) from posthaste.schema_version"); got != "{1}" {
				t.Errorf("versions %s", got)
			}
			if got := query(t, d.admin, "select count(*) from posthaste.lane"); got != "64" {
				t.Errorf("%s lanes", got)
			}
			for i, conn := range conns[1:] {
				runs.Go(func() { _, errs[i+1] = postgres.MigrateDown(t.Context(), conn, n, postgres.MigrateOptions{}) })
			}
			runs.Wait()
			if err := errors.Join(errs[1:]...); err != nil {
				t.Fatal(err)
			}
			if left := query(t, d.admin, strangers); left != "0" {
				t.Fatalf("%s things left", left)
			}
		}
	})
}

// A table of others is adopted and never lost: open-outbox/relay's schema file, UMC-PRODUCT/umc-product-server#1278.
func TestMigrateAdoptedTable(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		exec(t, d.admin, seedTable("outbox_event", "ix_outbox_event_unpublished"),
			"alter table outbox_event add status text not null default 'PENDING', add tenant uuid",
			insertEvents("outbox_event", "1000"))
		before := query(t, d.admin, shape, "outbox_event")
		m, err := postgres.Migrate(t.Context(), d.admin, n, postgres.MigrateOptions{DryRun: true})
		if must(t, err); len(m.Steps) == 0 || query(t, d.admin, "to_regnamespace('posthaste')") != "null" {
			t.Errorf("dry run: %v", m)
		}
		up(t, d.admin, n, postgres.MigrateOptions{})
		if after := query(t, d.admin, shape, "outbox_event"); after != before {
			t.Errorf("before: %s\nafter: %s", before, after)
		}
		_, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrUnpublished, "holds 1000 unpublished events")
		exec(t, d.admin, insertEvents("outbox_event", "1"))
		_, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{DryRun: true})
		wantProblem(t, err, postgres.ErrUnpublished, "more than 1000")
		exec(t, d.admin, "update outbox_event set published_at = now()")
		m, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		if must(t, err); len(m.Notes) != 1 || query(t, d.admin, "select count(*) from outbox_event") != "1001" {
			t.Errorf("down: %v", m)
		}
		if query(t, d.admin, "to_regnamespace('posthaste')") != "null" ||
			query(t, d.admin, shape, "outbox_event") != before {
			t.Error("down left the side schema, or touched the table")
		}
	})
}

func TestMigrateDownLosesNoEventToARace(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		up(t, d.admin, n, postgres.MigrateOptions{})
		writer := connect(t, d.config)
		exec(t, writer, "begin", insertEvents("outbox_event", "1"))

		// The writer's event is not visible: only the lock tells that it may come.
		done := make(chan error, 1)
		down := connect(t, d.config)
		go func() {
			_, err := postgres.MigrateDown(context.Background(), down, n, postgres.MigrateOptions{})
			done <- err
		}()
		waitFor(t, d.admin, "exists (select from pg_locks where relation = 'outbox_event'::regclass and not granted)")
		exec(t, writer, "commit")
		// On a machine under load the lock may have been given up before the commit.
		if err := <-done; !errors.Is(err, postgres.ErrBusy) {
			wantProblem(t, err, postgres.ErrUnpublished, "1 unpublished event;")
		}
		if got := query(t, d.admin, "select count(*) from outbox_event"); got != "1" {
			t.Errorf("%s events", got)
		}

		exec(t, d.admin, "delete from outbox_event")
		exec(t, writer, "begin", insertEvents("outbox_event", "1"))
		_, err := postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrBusy, "locked")
		exec(t, writer, "commit")
		if got := query(t, d.admin, "select count(*) from outbox_event"); got != "1" {
			t.Errorf("%s events", got)
		}
	})
}

func TestMigrateDownRefusesWhileRelaysRun(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		up(t, d.admin, n, postgres.MigrateOptions{})
		o, err := postgres.Inspect(t.Context(), d.admin, n)
		must(t, err)
		join := `
insert into posthaste.member (outbox, name, version, session, beat_at)
select $1, $2, '1', $3, clock_timestamp() - $4::interval returning id`
		member := func(name string, session bool, age string) (id int32) {
			must(t, d.admin.QueryRow(t.Context(), join, o.ID, name, session, age).Scan(&id))
			return id
		}
		member("killed", true, "0s")
		member("gone", false, "2 minutes")
		alive := member("alive", true, "2 minutes")
		member("pooled", false, "3s")
		relay := connect(t, d.config)
		_, err = relay.Exec(t.Context(), "select pg_advisory_lock($1, $2)", o.LockClass, alive)
		must(t, err)

		_, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrMembers, `"outbox_event": alive, pooled;`)
		exec(t, d.admin, "delete from posthaste.member where name = 'pooled'")
		must(t, relay.Close(t.Context()))
		waitFor(t, d.admin,
			"not exists (select from pg_locks where locktype = 'advisory' and database = (select oid from "+
				"pg_database where datname = current_database()))")
		_, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		must(t, err)
	})
}

func TestMigrateRefusals(t *testing.T) {
	cases := map[string]struct {
		before []string
		opts   postgres.MigrateOptions
		kind   error
		text   string
	}{
		"lanes not a power of two": {nil, postgres.MigrateOptions{Lanes: 48}, postgres.ErrLanes, "power of two"},
		"other lanes": {nil, postgres.MigrateOptions{Lanes: 32}, postgres.ErrLanes,
			"has 64 lanes, not 32"},
		"newer": {[]string{"insert into posthaste.schema_version values (2)"}, postgres.MigrateOptions{},
			postgres.ErrSchemaNewer, "version 2, this program knows up to 1"},
		"side schema of others": {[]string{"drop schema posthaste cascade", "create schema posthaste",
			"create table posthaste.member ()"},
			postgres.MigrateOptions{}, postgres.ErrForeignTable, "POSTHASTE_SCHEMA"},
		"view": {[]string{"alter table outbox_event rename to other",
			"create view outbox_event as select * from other"},
			postgres.MigrateOptions{}, postgres.ErrNoTable, "is no table"},
		"column of another type": {[]string{"drop table outbox_event",
			"create table outbox_event (id bigint primary key, payload text)"},
			postgres.MigrateOptions{}, postgres.ErrColumn, "column payload is text, want jsonb"},
		// The test servers are such.
		"wake-up beside prepared transactions": {nil, postgres.MigrateOptions{WakeUp: postgres.WakeUpOn},
			postgres.ErrWakeUp, "max_prepared_transactions is 10"},
		"read-only": {[]string{"set default_transaction_read_only = on"}, postgres.MigrateOptions{},
			postgres.ErrReadOnly, "read-only"},
	}
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				d.empty(t)
				up(t, d.admin, n, postgres.MigrateOptions{})
				exec(t, d.admin, test.before...)
				_, err := postgres.Migrate(t.Context(), d.admin, n, test.opts)
				wantProblem(t, err, test.kind, test.text)
				exec(t, d.admin, "set default_transaction_read_only = off")
			})
		}
	})
}

const partitioned = `
create table outbox_event (
    id bigint not null, event_id uuid not null, aggregate_type text not null, aggregate_id text not null,
    event_type text not null, payload jsonb not null, topic text not null, partition_key text not null,
    created_at timestamptz not null default now(), published_at timestamptz, primary key (id, event_id)
) partition by range (event_id)`

func TestMigrateSaysWhichRightIsMissing(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		role, conn := d.role()
		exec(t, d.admin, "revoke create on schema public from public")
		refused := func(text string) {
			t.Helper()
			_, err := postgres.Migrate(t.Context(), conn, n, postgres.MigrateOptions{})
			wantProblem(t, err, postgres.ErrRights, text)
		}
		refused("grant create on database")
		exec(t, d.admin, "grant create on database "+d.name+" to "+role)
		refused(`grant create on schema "public"`)
		exec(t, d.admin, seedTable("outbox_event", "ix_outbox_event_unpublished"))
		exec(t, d.admin, "drop index ix_outbox_event_unpublished")
		refused("does not own")
		if query(t, d.admin, "to_regnamespace('posthaste')") != "null" {
			t.Error("a refused migration left something")
		}
		up(t, d.admin, n, postgres.MigrateOptions{})
		refused("grant usage, create on schema")
	})
}
