package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"posthaste.dev/posthaste/postgres"
)

// shape describes a table so that two of them can be compared: columns, then indexes.
const shape = `select jsonb_build_array(
  (select jsonb_agg(jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                                      pg_get_expr(d.adbin, d.adrelid)) order by a.attnum)
   from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where a.attrelid = $1::text::regclass and a.attnum > 0),
  (select jsonb_agg(regexp_replace(pg_get_indexdef(i.indexrelid), ' ON \S+ ', ' ON t ') order by i.indexrelid)
   from pg_index i where i.indrelid = $1::text::regclass))`

// strangers counts what is in a database beside the system's own things.
const strangers = `
select (select count(*) from pg_class where relnamespace::regnamespace::text !~ '^(pg_|information_schema)')
	+ (select count(*) from pg_namespace where nspname !~ '^(pg_|information_schema|public)')`

func TestMigrateEmptyDatabase(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")

		m, err := postgres.Migrate(t.Context(), d.admin, n, postgres.MigrateOptions{DryRun: true})
		must(t, err)
		if len(m.Steps) == 0 || query(t, d.admin, strangers) != "0" {
			t.Fatalf("dry run planned %d steps, then the database holds %s things", len(m.Steps),
				query(t, d.admin, strangers))
		}
		planned := m.Steps
		if done := up(t, d.admin, n, postgres.MigrateOptions{}).Steps; !slices.Equal(done, planned) {
			t.Errorf("done: %v\nplanned: %v", done, planned)
		}
		if again := up(t, d.admin, n, postgres.MigrateOptions{}); len(again.Steps)+len(again.Notes) > 0 {
			t.Errorf("second run did %v, noted %v", again.Steps, again.Notes)
		}

		exec(t, d.admin, "create schema seed", seedTable("seed.outbox_event", "ix_outbox_event_unpublished"))
		ours, seed := query(t, d.admin, shape, "public.outbox_event"), query(t, d.admin, shape, "seed.outbox_event")
		if ours != seed {
			t.Errorf("table differs from the seed's:\n%s\n%s", ours, seed)
		}
		exec(t, d.admin, "drop schema seed cascade")

		o, err := postgres.Inspect(t.Context(), d.admin, n, postgres.RightUpdate, postgres.RightDelete)
		must(t, err)
		if o.Version != postgres.SchemaVersion || o.ID == 0 || o.LockClass <= 0 || !o.Created || o.Lanes != 64 ||
			o.NextLanes != 0 || o.Generation != 1 || o.HasHeaders || o.Sequence != `"public"."outbox_event_id_seq"` ||
			!o.SequenceTrusted || len(o.Warnings) > 0 || o.Server.Database != d.name {
			t.Errorf("Inspect = %+v", o)
		}
		if got := query(t, d.admin,
			"select count(*) || ' ' || min(lane) || ' ' || max(lane) from posthaste.lane"); got != "64 0 63" {
			t.Errorf("lanes: %s", got)
		}

		m, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		must(t, err)
		if left := query(t, d.admin, strangers); left != "0" {
			t.Errorf("%s things left after %v", left, m.Steps)
		}
		m, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
		if err != nil || len(m.Steps) > 0 || len(m.Notes) != 1 {
			t.Errorf("second down: %v, %v", m, err)
		}
	})
}

func TestMigrateSQLIsWhatMigrateDoes(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		printed, run := newDatabase(t, url), newDatabase(t, url)
		n := names(t, `"Sa'les".t`, `"back\slash"`)
		opts := postgres.MigrateOptions{Headers: true, Lanes: 8}
		text, err := postgres.MigrateSQL(n, opts)
		must(t, err)
		exec(t, printed.admin, text)
		up(t, run.admin, n, opts)

		if m := up(t, printed.admin, n, opts); len(m.Steps) > 0 {
			t.Errorf("after the printed SQL, a migration still did %v", m.Steps)
		}
		a, aerr := postgres.Inspect(t.Context(), printed.admin, n)
		b, berr := postgres.Inspect(t.Context(), run.admin, n)
		must(t, errors.Join(aerr, berr))
		if !a.HasHeaders || a.Lanes != 8 || a.LockClass != b.LockClass || a.Created != b.Created ||
			a.Version != b.Version {
			t.Errorf("printed: %+v\nrun: %+v", a, b)
		}
		p, r := query(t, printed.admin, shape, n.Table.String()), query(t, run.admin, shape, n.Table.String())
		if p != r {
			t.Errorf("printed: %s\nrun: %s", p, r)
		}
		_, err = postgres.MigrateDown(t.Context(), printed.admin, n, postgres.MigrateOptions{})
		if must(t, err); query(t, printed.admin, strangers) != "0" {
			t.Errorf("%s things left after down", query(t, printed.admin, strangers))
		}
	})
}

// The names and the search_path of bug reports: ThreeDotsLabs/watermill PR#261, goauthentik/authentik#19939.
func TestMigrateOddNamesAndEmptySearchPath(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		role, conn := d.role("search_path = ''", "standard_conforming_strings = off",
			"default_transaction_isolation = serializable")
		exec(t, d.admin, "grant create on database "+d.name+" to "+role)
		n := names(t, `"Sales"."outbox-event"`, `"Post Haste"`)
		up(t, conn, n, postgres.MigrateOptions{Headers: true})
		o, err := postgres.Inspect(t.Context(), conn, n)
		must(t, err)
		if !o.SequenceTrusted || !o.HasHeaders {
			t.Errorf("%+v", o)
		}
		if got := query(t, d.admin,
			"select count(*) from pg_class where relnamespace = 'public'::regnamespace"); got != "0" {
			t.Errorf("%s things in public", got)
		}
		exec(t, conn, `drop index "Sales"."ix_outbox-event_unpublished"`)
		err = postgres.Check(t.Context(), conn, n)
		wantProblem(t, err, postgres.ErrIndex,
			`posthaste migrate up --table '"Sales"."outbox-event"' --schema '"Post Haste"'`)
		up(t, conn, n, postgres.MigrateOptions{})
		must(t, postgres.Check(t.Context(), conn, n))
		exec(t, d.admin, insertEvents(n.Table.String(), "1"))
		_, err = postgres.MigrateDown(t.Context(), conn, n, postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrUnpublished, "1 unpublished event;")
		exec(t, d.admin, "delete from "+n.Table.String())
		_, err = postgres.MigrateDown(t.Context(), conn, n, postgres.MigrateOptions{})
		if must(t, err); query(t, d.admin, strangers) != "0" {
			t.Errorf("%s things left", query(t, d.admin, strangers))
		}
	})
}

func TestTwoOutboxesInOneDatabase(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		long := strings.Repeat("x", 62)
		shared := []postgres.Names{names(t, "public."+long+"a", "posthaste"), names(t, "public."+long+"b", "posthaste")}
		own := names(t, "outbox_event", "own")
		classes := map[int32]bool{}
		for _, n := range append(shared, own) {
			up(t, d.admin, n, postgres.MigrateOptions{Lanes: 4})
			o, err := postgres.Inspect(t.Context(), d.admin, n)
			must(t, err)
			classes[o.LockClass] = true
		}
		if len(classes) != 3 {
			t.Errorf("lock classes %v", classes)
		}

		exec(t, d.admin, insertEvents(shared[1].Table.String(), "1"))
		_, err := postgres.MigrateDown(t.Context(), d.admin, shared[0], postgres.MigrateOptions{})
		must(t, err)
		must(t, postgres.Check(t.Context(), d.admin, shared[1]))
		must(t, postgres.Check(t.Context(), d.admin, own))
		err = postgres.Check(t.Context(), d.admin, shared[0])
		wantProblem(t, err, postgres.ErrNoTable, "is missing")
		wantProblem(t, err, postgres.ErrNotRegistered, "is not registered")
	})
}

// A table has one set of relays: after a change of POSTHASTE_SCHEMA a second one would send all events again.
func TestMigrateRefusesASecondSideSchema(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		first, second := names(t, "outbox_event", `"Old's"`), names(t, "outbox_event", "posthaste")
		up(t, d.admin, first, postgres.MigrateOptions{})
		up(t, d.admin, names(t, "other", "posthaste"), postgres.MigrateOptions{})
		for _, dry := range []bool{true, false} {
			_, err := postgres.Migrate(t.Context(), d.admin, second, postgres.MigrateOptions{DryRun: dry})
			wantProblem(t, err, postgres.ErrElsewhere, `is registered in side schema Old's already`)
		}
		_, all, err := postgres.Differences(t.Context(), d.admin, second)
		if must(t, err); !slices.ContainsFunc(all, func(p postgres.Difference) bool {
			return p.Severity == postgres.Refuse && errors.Is(p, postgres.ErrElsewhere)
		}) {
			t.Errorf("differences: %v", all)
		}
		// Whoever may not read the other schema is told of it and not kept from work: it may be anybody's.
		_, conn := d.role()
		_, all, err = postgres.Differences(t.Context(), conn, second)
		if must(t, err); !slices.ContainsFunc(all, func(p postgres.Difference) bool {
			return p.Severity == postgres.Note && errors.Is(p, postgres.ErrElsewhere)
		}) {
			t.Errorf("differences as seen by a role without rights: %v", all)
		}

		// What the refusal says to run is the way out, and the table keeps its events.
		exec(t, d.admin, insertEvents("outbox_event", "3"))
		_, all, err = postgres.Differences(t.Context(), d.admin, second)
		must(t, err)
		for _, p := range all {
			if _, sql, ok := strings.Cut(p.Fix, "run: delete"); ok {
				exec(t, d.admin, "delete"+sql)
			}
		}
		up(t, d.admin, second, postgres.MigrateOptions{})
		if query(t, d.admin, "select count(*) from outbox_event") != "3" {
			t.Error("events are gone")
		}
	})
}

// Two migrations with different side schemas at the same instant: one of them gets the table.
func TestMigrateTwoSideSchemasAtOnce(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		exec(t, d.admin, seedTable("outbox_event", "ix_outbox_event_unpublished"))
		var runs sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			conn := connect(t, d.config)
			n := names(t, "outbox_event", fmt.Sprint("side", i))
			runs.Go(func() { _, errs[i] = postgres.Migrate(t.Context(), conn, n, postgres.MigrateOptions{}) })
		}
		runs.Wait()
		refused := 0
		for _, err := range errs {
			if errors.Is(err, postgres.ErrElsewhere) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 3 {
			t.Errorf("%d of 4 were refused, want 3: %v", refused, errs)
		}
	})
}
