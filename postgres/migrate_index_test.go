package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
)

// adopted returns a database with the seed's table, some rows and no usable partial index.
func adopted(t *testing.T, url, rows string) (*database, postgres.Names) {
	d := newDatabase(t, url)
	exec(t, d.admin, seedTable("outbox_event", "ix_outbox_event_unpublished"), "drop index ix_outbox_event_unpublished")
	if rows != "0" {
		exec(t, d.admin, insertEvents("outbox_event", rows))
	}
	return d, names(t, "outbox_event", "posthaste")
}

// interrupt leaves an invalid index as a statement_timeout or a lost connection does: another transaction's snapshot
// holds the build up at its end, until it is cancelled.
func interrupt(t *testing.T, d *database, name string) {
	t.Helper()
	snapshot := connect(t, d.config)
	exec(t, snapshot, "begin isolation level repeatable read", "select count(*) from outbox_event")
	builder := connect(t, d.config)
	done := make(chan error, 1)
	go func() {
		_, err := builder.Exec(context.Background(), strings.Replace(build, "ix_outbox_event_unpublished", name, 1))
		done <- err
	}()
	waitFor(t, d.admin, "exists (select from pg_index where indexrelid = to_regclass('"+name+"') and indisready)")
	exec(t, d.admin, fmt.Sprintf("select pg_cancel_backend(%d)", builder.PgConn().PID()))
	if err := <-done; err == nil {
		t.Fatalf("building %s was not interrupted", name)
	}
	exec(t, snapshot, "rollback")
}

const build = "create index concurrently ix_outbox_event_unpublished on outbox_event (id) where published_at is null"

const pollPlan = "explain (format json) select id from outbox_event where published_at is null and id > 0 order by " +
	"id limit 50"

// Interrupted builds: BerriAI/litellm PR#39384, sbdchd/squawk#1230, riverqueue/river#1301.
func TestMigrateRebuildsInterruptedIndex(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d, n := adopted(t, url, "50000")
		up(t, d.admin, n, postgres.MigrateOptions{})
		exec(t, d.admin, "drop index ix_outbox_event_unpublished")
		interrupt(t, d, "ix_outbox_event_unpublished")
		interrupt(t, d, "ix_outbox_event_unpublished_ccnew")

		err := postgres.Check(t.Context(), d.admin, n)
		wantProblem(t, err, postgres.ErrIndex, "interrupted")
		conn := connect(t, d.config)
		exec(t, conn, "set statement_timeout = '2s'", "set lock_timeout = '3s'")
		m := upSlowly(t, d, conn, n)
		if len(m.Steps) != 3 {
			t.Errorf("steps: %v", m.Steps)
		}
		must(t, postgres.Check(t.Context(), d.admin, n))
		got := query(t, d.admin, "select array_agg(relname order by relname) from pg_class c join pg_index on oid = "+
			"indexrelid "+
			"where relnamespace = 'public'::regnamespace and indisvalid")
		if got != "{ix_outbox_event_unpublished,outbox_event_event_id_key,outbox_event_pkey}" {
			t.Errorf("indexes %s", got)
		}
		var plan string
		must(t, d.admin.QueryRow(t.Context(), pollPlan).Scan(&plan))
		if !strings.Contains(plan, "ix_outbox_event_unpublished") {
			t.Errorf("poll doesn't use the index: %s", plan)
		}
		timeouts := query(t, conn, "current_setting('statement_timeout') || ', ' || current_setting('lock_timeout')")
		if timeouts != "2s, 3s" {
			t.Errorf("timeouts not restored: %s", timeouts)
		}
		if held := query(t, d.admin, "select count(*) from pg_locks where locktype = 'advisory' and pid = $1",
			conn.PgConn().PID()); held != "0" {
			t.Errorf("%s advisory locks kept", held)
		}
	})
}

// upSlowly migrates while another transaction keeps the work on indexes from its end, until that has taken longer than
// the session's statement_timeout of 2 s, which must not interrupt it.
func upSlowly(t *testing.T, d *database, conn *pgx.Conn, n postgres.Names) *postgres.Migration {
	t.Helper()
	snapshot := connect(t, d.config)
	exec(t, snapshot, "begin isolation level repeatable read", "select count(*) from outbox_event")
	working := fmt.Sprintf("select from pg_stat_activity where pid = %d and query like '%% index concurrently%%'",
		conn.PgConn().PID())
	done := make(chan error, 1)
	var m *postgres.Migration
	go func() {
		var err error
		m, err = postgres.Migrate(context.Background(), conn, n, postgres.MigrateOptions{})
		done <- err
	}()
	waitFor(t, d.admin, "exists ("+working+")")
	waitFor(t, d.admin, "not exists ("+working+" and clock_timestamp() < query_start + '2.2s')")
	exec(t, snapshot, "rollback")
	must(t, <-done)
	return m
}

func TestMigrateJudgesIndexesByWhatTheyAre(t *testing.T) {
	cases := map[string]struct {
		indexes []string
		built   string // the index that migrate builds, "" for none
		note    string
	}{
		"none": {nil, "ix_outbox_event_unpublished", ""},
		"right name, wrong predicate": {
			[]string{"create index ix_outbox_event_unpublished on outbox_event (id) where published_at is not null"},
			"ix_outbox_event_unpublished_2", "another one"},
		"right name, whole table": {
			[]string{"create index ix_outbox_event_unpublished on outbox_event (id)"},
			"ix_outbox_event_unpublished_2", "another one"},
		"wrong column": {[]string{"create index other on outbox_event (created_at) where published_at is null"},
			"ix_outbox_event_unpublished", ""},
		"stronger": {[]string{"create index other on outbox_event (id) where published_at is null and topic = 't'"},
			"ix_outbox_event_unpublished", ""},
		"hash": {[]string{"create index other on outbox_event using hash (id) where published_at is null"},
			"ix_outbox_event_unpublished", ""},
		"another name": {[]string{`create index "Mine" on outbox_event (id) where (published_at) is null`}, "", ""},
		"more columns": {[]string{"create index mine on outbox_event (id, topic) where published_at is null"}, "", ""},
		"names taken": {
			[]string{"create table ix_outbox_event_unpublished ()", "create sequence ix_outbox_event_unpublished_2"},
			"ix_outbox_event_unpublished_3", ""},
	}
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				d.empty(t)
				exec(t, d.admin, seedTable("outbox_event", "dropped"), "drop index dropped")
				exec(t, d.admin, test.indexes...)
				m := up(t, d.admin, n, postgres.MigrateOptions{})
				last := m.Steps[len(m.Steps)-1]
				if built := strings.Contains(last.SQL, `concurrently "`+test.built+`"`); built != (test.built != "") {
					t.Errorf("last step: %s", last.SQL)
				}
				if notes := strings.Join(m.Notes, "\n"); !strings.Contains(notes, test.note) ||
					(test.note == "") != (notes == "") {
					t.Errorf("notes: %s", notes)
				}
				must(t, postgres.Check(t.Context(), d.admin, n))
				if again := up(t, d.admin, n, postgres.MigrateOptions{}); len(again.Steps) > 0 {
					t.Errorf("second run: %v", again.Steps)
				}
			})
		}
	})
}

func TestMigrateLeavesARunningBuildAlone(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d, n := adopted(t, url, "10")
		up(t, d.admin, n, postgres.MigrateOptions{})
		exec(t, d.admin, "drop index ix_outbox_event_unpublished")
		snapshot := connect(t, d.config)
		exec(t, snapshot, "begin isolation level repeatable read", "select count(*) from outbox_event")
		builder := connect(t, d.config)
		done := make(chan error, 1)
		go func() {
			_, err := builder.Exec(context.Background(), build)
			done <- err
		}()
		waitFor(t, d.admin, "exists (select from pg_index where indrelid = 'outbox_event'::regclass "+
			"and not indisvalid and indisready)")

		_, conn := d.role()
		exec(t, d.admin, "grant usage on schema posthaste to public",
			"grant select, insert, update, delete on all tables in schema posthaste to public")
		_, err := postgres.Migrate(t.Context(), conn, n, postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrBusy, "")
		exec(t, snapshot, "rollback")
		must(t, <-done)
		if m := up(t, d.admin, n, postgres.MigrateOptions{}); len(m.Steps) > 0 {
			t.Errorf("after the build: %v", m.Steps)
		}
	})
}

// Writers go on while the index is built, and eight migrations at once build it once.
func TestMigrateAdoptsUnderLoad(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d, n := adopted(t, url, "50000")
		stop := writeAlong(t, d)
		errs := make([]error, 8)
		var runs sync.WaitGroup
		for i := range errs {
			conn := connect(t, d.config)
			runs.Go(func() {
				_, errs[i] = postgres.Migrate(t.Context(), conn, n, postgres.MigrateOptions{Headers: true})
			})
		}
		runs.Wait()
		if err := stop(); err != nil {
			t.Errorf("a writer failed: %v", err)
		}
		must(t, errors.Join(errs...))
		o, err := postgres.Inspect(t.Context(), d.admin, n)
		if must(t, err); o.Created || !o.HasHeaders {
			t.Errorf("%+v", o)
		}
		if got := query(t, d.admin,
			"select count(*) from pg_index where indrelid = 'outbox_event'::regclass"); got != "3" {
			t.Errorf("%s indexes", got)
		}
	})
}

// Adding a column needs the table alone for a moment, and must not make writers queue for longer than that.
func TestMigrateHeadersGivesWayToAnOpenTransaction(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d, n := adopted(t, url, "1")
		up(t, d.admin, n, postgres.MigrateOptions{})
		writer := connect(t, d.config)
		exec(t, writer, "begin", insertEvents("outbox_event", "1"))
		_, err := postgres.Migrate(t.Context(), d.admin, n, postgres.MigrateOptions{Headers: true})
		wantProblem(t, err, postgres.ErrBusy, "run it again")
		exec(t, writer, "commit")
		up(t, d.admin, n, postgres.MigrateOptions{Headers: true})
		o, err := postgres.Inspect(t.Context(), d.admin, n)
		if must(t, err); !o.HasHeaders || query(t, d.admin, "current_setting('lock_timeout')") != "0" {
			t.Errorf("%+v", o)
		}
	})
}

func TestMigrateAdoptsPartitionedTableWithItsIndex(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		exec(t, d.admin, partitioned, "create table p1 partition of outbox_event default",
			"create index unpublished on outbox_event (id) where published_at is null")
		up(t, d.admin, n, postgres.MigrateOptions{})
		o, err := postgres.Inspect(t.Context(), d.admin, n)
		partitioned := func(p postgres.Problem) bool { return errors.Is(p, postgres.ErrPartitioned) }
		if must(t, err); !slices.ContainsFunc(o.Notes, partitioned) || o.SequenceTrusted || len(o.Warnings) != 1 {
			t.Errorf("%+v", o)
		}
	})
}
