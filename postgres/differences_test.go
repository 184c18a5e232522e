package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"posthaste.dev/posthaste/postgres"
)

// Each case makes the seed's table into somebody's own; the difference must be told with its severity, and what is said
// to be run must end it.
func TestDifferences(t *testing.T) {
	cases := map[string]struct {
		before   string
		severity postgres.Severity
		kind     error
		cause    string
		fix      string // in the words that tell what to do; what begins with "run: " is run too
	}{
		"updates become nothing": {"create rule r as on update to outbox_event do instead nothing", postgres.Refuse,
			postgres.ErrRule, "rule r on", "drop rule"},
		"inheriting table": {"create table child () inherits (outbox_event)", postgres.Refuse, postgres.ErrInherits,
			`"child" inherits from`, "no inherit"},
		"published without identity": {"alter table outbox_event drop constraint outbox_event_pkey; " +
			"create unique index u on outbox_event (id); create publication {role} for table outbox_event",
			postgres.Refuse, postgres.ErrIdentity, "no replica identity", "replica identity full"},
		"missing column": {"alter table outbox_event rename payload to body", postgres.Refuse, postgres.ErrColumn,
			"column payload (jsonb) is missing", "POSTHASTE_COLUMNS=payload=body"},
		"null topic": {"alter table outbox_event alter topic drop not null", postgres.Refuse, postgres.ErrColumn,
			"topic may be null", "validate constraint"},
		"created_at of another type": {"alter table outbox_event alter created_at type timestamp", postgres.Refuse,
			postgres.ErrColumn, "created_at is timestamp without", "POSTHASTE_COLUMNS=created_at=,"},

		"event_id not unique": {"alter table outbox_event drop constraint outbox_event_event_id_key", postgres.WorksBut,
			postgres.ErrUnique, "event_id is not unique", "create unique index concurrently"},
		"event_id unique in part": {"alter table outbox_event drop constraint outbox_event_event_id_key; " +
			"create unique index p on outbox_event (event_id) where topic = 't'", postgres.WorksBut, postgres.ErrUnique,
			"event_id is not unique", "create unique index concurrently"},
		"no primary key": {"alter table outbox_event drop constraint outbox_event_pkey", postgres.WorksBut,
			postgres.ErrUnique, "id is not unique", "create unique index concurrently"},
		"other primary key": {"alter table outbox_event drop constraint outbox_event_pkey, add primary key " +
			"(event_id), add unique (id)", postgres.Note, postgres.ErrUnique, "id is not the primary key", ""},
		"unlogged": {"alter table outbox_event set unlogged", postgres.WorksBut, postgres.ErrUnlogged, "is unlogged",
			"set logged"},
		"before update": {touch + "create trigger t before update on outbox_event for each row execute function f()",
			postgres.WorksBut, postgres.ErrTrigger, "runs before every update", "drop trigger"},
		"after update": {touch + "create trigger t after update on outbox_event for each row execute function f()",
			postgres.WorksBut, postgres.ErrTrigger, "runs whenever events are marked", "drop trigger"},
		"update of another column": {touch + "create trigger t before update of topic on outbox_event for each row " +
			"execute function f()", postgres.Note, postgres.ErrTrigger, "is on the table", "drop trigger"},
		"before insert": {touch + "create trigger t before insert on outbox_event for each row execute function f()",
			postgres.Note, postgres.ErrTrigger, "runs before every insert", "drop trigger"},
		"rule on insert": {"create rule r as on insert to outbox_event do also notify x", postgres.WorksBut,
			postgres.ErrRule, "rule r rewrites", "drop rule"},
		"cache": {"alter sequence outbox_event_id_seq cache 20", postgres.WorksBut, postgres.ErrSequence,
			"has cache 20",
			"cache 1"},
		"short sequence": {"alter sequence outbox_event_id_seq maxvalue 2147483647", postgres.WorksBut,
			postgres.ErrSequence, "ends at 2147483647", "maxvalue 9223372036854775807"},
		"short ids": {"alter table outbox_event alter id type integer", postgres.WorksBut, postgres.ErrColumn,
			"id is integer", "type bigint"},
		"an invalid index beside": {"create index b on outbox_event (id) where published_at is null; " +
			"update pg_index set indisvalid = false where indexrelid = 'b'::regclass",
			postgres.WorksBut, postgres.ErrIndex, `"b" is invalid`, "migrate up"},
		"no default": {"alter table outbox_event alter created_at drop default", postgres.WorksBut, postgres.ErrColumn,
			"created_at has no default", "set default now()"},
		"generated key": {"alter table outbox_event drop partition_key; " +
			"alter table outbox_event add partition_key text generated always as (aggregate_id) stored not null",
			postgres.WorksBut, postgres.ErrColumn,
			"partition_key is generated, so an insert that gives it fails, and Posthaste's Go writer gives it",
			"drop expression"},
		"demanding column": {"alter table outbox_event add tenant text not null", postgres.WorksBut, postgres.ErrColumn,
			"tenant is none of an outbox's", "set default"},
		"no vacuum": {"alter table outbox_event set (autovacuum_enabled = off)", postgres.WorksBut, postgres.ErrTable,
			"autovacuum is off", "reset (autovacuum_enabled)"},

		"own columns": {"alter table outbox_event add status text not null default 'PENDING', add tenant uuid",
			postgres.Note, postgres.ErrColumn, "columns of your own: status, tenant", "nothing"},
		"own index": {"create index own on outbox_event (topic)", postgres.Note, postgres.ErrIndex, `"public"."own"`,
			"drop index concurrently"},
		"own check": {"alter table outbox_event add constraint k check (topic <> '')", postgres.Note, postgres.ErrTable,
			"constraint k: CHECK", "drop constraint"},
		"json": {"alter table outbox_event alter payload type json", postgres.Note, postgres.ErrColumn,
			"payload is json",
			"nothing"},
		"ids by default": {"alter table outbox_event alter id set generated by default", postgres.Note,
			postgres.ErrSequence, "ids may be given by hand", "sequence"},
		"no created_at": {"alter table outbox_event drop created_at", postgres.Note, postgres.ErrColumn,
			"created_at is missing: records go without that header",
			"add column created_at timestamptz not null default now()"},
		"null type": {"alter table outbox_event alter event_type drop not null", postgres.Note, postgres.ErrColumn,
			"event_type may be null", "set not null"},
		"row security for others": {"alter table outbox_event enable row level security", postgres.Note,
			postgres.ErrRowSecurity, "does not apply to role", "bypassrls"},
	}
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				d.empty(t)
				up(t, d.admin, n, postgres.MigrateOptions{})
				exec(t, d.admin, strings.ReplaceAll(test.before, "{role}", "p"))
				_, all, err := postgres.Differences(t.Context(), d.admin, n)
				must(t, err)
				is := func(x postgres.Difference) bool {
					return x.Severity == test.severity && errors.Is(x, test.kind) &&
						strings.Contains(x.Cause, test.cause) &&
						strings.Contains(x.Fix, test.fix)
				}
				i := slices.IndexFunc(all, is)
				if i < 0 {
					t.Fatalf("not told; told are %v", all)
				}
				if sql, ok := strings.CutPrefix(all[i].Fix, "run: "); ok {
					if strings.HasPrefix(sql, "posthaste migrate up") {
						up(t, d.admin, n, postgres.MigrateOptions{})
					} else {
						sql, _, _ = strings.Cut(sql, ", or ")
						exec(t, d.admin, sql)
					}
					_, all, err = postgres.Differences(t.Context(), d.admin, n)
					if must(t, err); slices.ContainsFunc(all, is) {
						t.Errorf("still there after %s", sql)
					}
				}
				exec(t, d.admin, "drop publication if exists p")
			})
		}
	})
}

const touch = `
create function f() returns trigger language plpgsql as 'begin return new; end';`

// The table that migrate makes differs in nothing.
func TestNoDifferences(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		for _, headers := range []bool{false, true} {
			n := names(t, map[bool]string{false: "a", true: "b"}[headers], "posthaste")
			up(t, d.admin, n, postgres.MigrateOptions{Headers: headers})
			if _, all, err := postgres.Differences(t.Context(), d.admin, n); err != nil || len(all) > 0 {
				t.Errorf("%v, %v", all, err)
			}
		}
	})
}

// All that is wrong comes at once, however much it is, and what does not refuse is told by migrate up as well.
func TestDifferencesAllAtOnce(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		exec(t, d.admin, seedTable("outbox_event", "x"), "drop index x", touch,
			"create trigger t after update on outbox_event for each row execute function f()",
			`alter table outbox_event set unlogged, add tenant text, alter event_type drop not null,
			 drop constraint outbox_event_event_id_key`, "alter sequence outbox_event_id_seq cache 10")
		want := []postgres.Severity{postgres.WorksBut, postgres.WorksBut, postgres.WorksBut, postgres.WorksBut,
			postgres.Note, postgres.Note}
		m := up(t, d.admin, n, postgres.MigrateOptions{})
		_, all, err := postgres.Differences(t.Context(), d.admin, n)
		must(t, err)
		for _, list := range [][]postgres.Difference{m.Differences, all} {
			var got []postgres.Severity
			for _, x := range list {
				got = append(got, x.Severity)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v", list)
			}
		}
	})
}

// No unique index on ids alone is possible where the table is not partitioned by them, and none concurrently on any
// partitioned table: whoever is told to make one must be able to.
func TestDifferencesOfAPartitionedTable(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		exec(t, d.admin, `
			create table outbox_event (id bigint not null generated always as identity, event_id uuid not null,
			    aggregate_type text not null, aggregate_id text not null, event_type text not null,
			    payload jsonb not null, topic text not null, partition_key text not null,
			    created_at timestamptz not null default now(),
			    published_at timestamptz) partition by list (topic)`,
			"create table p partition of outbox_event default")
		n := names(t, "outbox_event", "posthaste")
		up(t, d.admin, n, postgres.MigrateOptions{})
		_, all, err := postgres.Differences(t.Context(), d.admin, n)
		must(t, err)
		for _, x := range all {
			if sql, ok := strings.CutPrefix(x.Fix, "run: "); ok {
				exec(t, d.admin, sql)
			}
		}
		if !slices.ContainsFunc(all, func(x postgres.Difference) bool {
			return x.Severity == postgres.Note && strings.Contains(x.Cause, "id is not unique across partitions")
		}) {
			t.Errorf("not told that ids are not unique across partitions; told are %v", all)
		}
	})
}

func TestAPartitionIsNoOutbox(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		exec(t, d.admin, partitioned, "create table p1 partition of outbox_event default")
		_, err := postgres.Migrate(t.Context(), d.admin, names(t, "p1", "posthaste"), postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrPartitioned, `is a partition of "public"."outbox_event"`)
	})
}
