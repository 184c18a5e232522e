package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"posthaste.dev/posthaste/postgres"
)

// Each case breaks one thing; a role with a relay's rights must be told of it by name, with the way out. Row-level
// security that made a queue silently deliver nothing: TeamWarp/effect-mq#9, graphile/worker#323.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		before []string // {role} is the relay's
		kind   error
		cause  string
		fix    string
	}{
		"no table": {[]string{"drop table outbox_event"}, postgres.ErrNoTable,
			`"outbox_event" is missing in database`, "posthaste migrate up"},
		"a view": {[]string{"alter table outbox_event rename to x", "create view outbox_event as select * from x"},
			postgres.ErrNoTable, "is no table", "POSTHASTE_TABLE"},
		"no column": {[]string{"alter table outbox_event drop topic"}, postgres.ErrColumn,
			"column topic (text) is missing", "POSTHASTE_TABLE"},
		"text payload": {[]string{"alter table outbox_event alter payload type text"}, postgres.ErrColumn,
			"payload is text, want jsonb", "POSTHASTE_COLUMNS=payload="},
		"timestamp": {[]string{"alter table outbox_event alter published_at type timestamp"}, postgres.ErrColumn,
			"published_at is timestamp without time zone", "type"},
		"always published": {[]string{"alter table outbox_event alter published_at set default now()"},
			postgres.ErrColumn,
			"published_at has a default", "alter column published_at drop default"},
		"null key": {[]string{"alter table outbox_event alter partition_key drop not null"}, postgres.ErrColumn,
			"partition_key may be null", "alter column partition_key set not null"},
		"loose topics": {[]string{
			"create collation public.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
			"alter table outbox_event alter topic type text collate public.loose"}, postgres.ErrColumn,
			"not deterministic", `alter column topic type text collate "C"`},
		"no index": {[]string{"drop index ix_outbox_event_unpublished"}, postgres.ErrIndex,
			"no valid index on (id) where published_at is null", "migrate up"},
		"other predicate": {[]string{"drop index ix_outbox_event_unpublished",
			"create index ix_outbox_event_unpublished on outbox_event (id) where topic = 'x'"}, postgres.ErrIndex,
			"is another: CREATE INDEX", "migrate up"},
		"invalid index": {[]string{"update pg_index set indisvalid = false where indexrelid = " +
			"'ix_outbox_event_unpublished'::regclass"}, postgres.ErrIndex, "is invalid", "migrate up"},

		"row security": {[]string{"alter table outbox_event enable row level security"}, postgres.ErrRowSecurity,
			"would hide events", "bypassrls"},
		"row security, tenants": {[]string{"alter table outbox_event enable row level security",
			"create policy one on outbox_event using (topic = 'a')"}, postgres.ErrRowSecurity, "row-level security",
			"disable row level security"},
		"row security, forced on the owner": {[]string{"alter table outbox_event enable row level security",
			"alter table outbox_event force row level security",
			"grant create on schema public to {role}", "alter table outbox_event owner to {role}"},
			postgres.ErrRowSecurity,
			"row-level security", "bypassrls"},

		"no usage": {[]string{"revoke usage on schema public from {role}, public"}, postgres.ErrRights,
			"may not use schema public", `grant usage on schema "public"`},
		"no select": {[]string{"revoke select on outbox_event from {role}"}, postgres.ErrRights, "lacks select on",
			"grant select on"},
		"no update": {[]string{"revoke update on outbox_event from {role}"}, postgres.ErrRights, "lacks update on",
			"grant update on"},
		"no delete": {[]string{"revoke delete on outbox_event from {role}"}, postgres.ErrRights, "lacks delete on",
			"grant delete on"},
		"no side usage": {[]string{"revoke usage on schema posthaste from {role}"}, postgres.ErrRights,
			"may not use schema posthaste", `grant usage on schema "posthaste"`},
		"no beat": {[]string{"revoke insert, update on posthaste.member from {role}"}, postgres.ErrRights,
			`lacks insert, update on "posthaste"."member"`, "grant insert, update"},
		"no version": {[]string{"revoke select on posthaste.schema_version from {role}"}, postgres.ErrRights,
			"lacks select on", "grant select"},
		"read-only role": {[]string{"alter role {role} set default_transaction_read_only = on"}, postgres.ErrReadOnly,
			"read-only", "default_transaction_read_only"},

		"no side tables": {[]string{"drop schema posthaste cascade"}, postgres.ErrNoSideSchema,
			"side tables are missing",
			"migrate up"},
		"one missing": {[]string{"drop table posthaste.lane"}, postgres.ErrNoSideSchema, "only 7 of the 8",
			"migrate up"},
		"newer": {[]string{"insert into posthaste.schema_version values (2)"}, postgres.ErrSchemaNewer,
			"version 2, this program knows up to 1", "newer posthaste"},
		"older": {[]string{"delete from posthaste.schema_version"}, postgres.ErrSchemaOlder,
			"version 0, this program needs 1", "migrate up"},
		"not registered": {[]string{"delete from posthaste.outbox"}, postgres.ErrNotRegistered, "is not registered",
			"migrate up"},
	}
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				d.empty(t)
				up(t, d.admin, n, postgres.MigrateOptions{})
				role, conn := d.role()
				grantRelay(t, d, role)
				must(t, postgres.Check(t.Context(), conn, n, postgres.RightUpdate, postgres.RightDelete))
				for _, s := range test.before {
					exec(t, d.admin, strings.ReplaceAll(s, "{role}", role))
				}
				if test.kind == postgres.ErrReadOnly {
					conn = connect(t, conn.Config()) // defaults of a role hold from the next session on
				}
				o, err := postgres.Inspect(t.Context(), conn, n, postgres.RightUpdate, postgres.RightDelete)
				var wrong *postgres.SchemaError
				if !errors.As(err, &wrong) || !errors.Is(err, test.kind) || o == nil {
					t.Fatalf("Inspect = %v, %v", o, err)
				}
				p := wrong.Problems[0]
				if len(wrong.Problems) != 1 || !strings.Contains(p.Cause, test.cause) ||
					!strings.Contains(p.Fix, test.fix) {
					t.Errorf("cause: %s\nfix: %s\nall: %v", p.Cause, p.Fix, err)
				}
			})
		}
	})
}

// grantRelay gives a role what a relay needs and no more.
func grantRelay(t testing.TB, d *database, role string) {
	t.Helper()
	exec(t, d.admin, "grant usage on schema public, posthaste to "+role,
		"grant select, update, delete on outbox_event to "+role,
		"grant select on outbox_event_id_seq to "+role, "grant select on posthaste.schema_version to "+role,
		"grant select, update on posthaste.outbox to "+role,
		"grant select, insert, update, delete on posthaste.member, posthaste.lane, posthaste.parked to "+role,
		"grant select on posthaste.pause, posthaste.topic_look to "+role, "grant insert on posthaste.audit to "+role)
}

func TestCheckListsAllProblemsAtOnce(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		exec(t, d.admin, "create table outbox_event (id bigint primary key, payload text)")
		_, conn := d.role()
		err := postgres.Check(t.Context(), conn, names(t, "outbox_event", "posthaste"))
		for _, kind := range []error{postgres.ErrColumn, postgres.ErrIndex, postgres.ErrRights,
			postgres.ErrNoSideSchema} {
			if !errors.Is(err, kind) {
				t.Errorf("%v is not in: %v", kind, err)
			}
		}
		var first postgres.Problem
		if !errors.As(err, &first) || !strings.Contains(err.Error(), "8 problems: (1) ") {
			t.Errorf("Check = %v", err)
		}
	})
}

// Where ids may jump back, nothing may be concluded from the sequence. A restore that leaves it behind:
// vectorize-io/hindsight#3841.
func TestInspectWarns(t *testing.T) {
	cases := map[string]struct {
		before  []string
		warning string // "" for none
		fix     string
		trusted bool
	}{
		"serial": {[]string{"alter table outbox_event alter id drop identity",
			"create sequence s owned by outbox_event.id",
			"alter table outbox_event alter id set default nextval('s')"}, "", "", true},
		"a sequence of others": {[]string{"alter table outbox_event alter id drop identity", `create sequence "S's"`,
			`alter table outbox_event alter id set default nextval('"S''s"')`}, "", "", true},
		"by default": {[]string{"alter table outbox_event alter id set generated by default"}, "", "", true},
		"cache":      {[]string{"alter sequence outbox_event_id_seq cache 10"}, "has cache 10", "cache 1", false},
		"cycle":      {[]string{"alter sequence outbox_event_id_seq cycle"}, "cycles", "no cycle", false},
		"downwards": {[]string{"alter sequence outbox_event_id_seq increment by -1 maxvalue 9 minvalue -9 restart 5"},
			"runs downwards", "increment by 1", false},
		"no sequence": {[]string{"alter table outbox_event alter id drop identity"}, "don't come from a sequence",
			"generated by default as identity", false},
		"computed": {[]string{"alter table outbox_event alter id drop identity", "create sequence s",
			"alter table outbox_event alter id set default nextval('s') * 2"}, "don't come from a sequence", "", false},
		"behind": {[]string{"insert into outbox_event overriding system value select 1000, gen_random_uuid(), 'a', " +
			"'a', 'a', '{}', 't', 'k', now(), now()"},
			"stands at 0, behind the highest id 1000", `setval('"public"."outbox_event_id_seq"', 1000)`, true},
		"unreadable sequence": {[]string{"revoke select on outbox_event_id_seq from {role}"}, "may not read sequence",
			"grant select on sequence", false},
		"headers of others": {[]string{"alter table outbox_event add headers text"}, "column headers is text",
			"POSTHASTE_COLUMNS=headers=", true},
		"varchar": {[]string{"alter table outbox_event alter topic type varchar(249)"}, "", "", true},
	}
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		role, conn := d.role()
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				d.empty(t)
				up(t, d.admin, n, postgres.MigrateOptions{})
				grantRelay(t, d, role)
				for _, s := range test.before {
					exec(t, d.admin, strings.ReplaceAll(s, "{role}", role))
				}
				if test.trusted {
					exec(t, d.admin, "grant select on all sequences in schema public to "+role)
				}
				o, err := postgres.Inspect(t.Context(), conn, n)
				must(t, err)
				if o.SequenceTrusted != test.trusted || o.HasHeaders {
					t.Errorf("Inspect = %+v", o)
				}
				switch {
				case test.warning == "" && len(o.Warnings) > 0:
					t.Errorf("warnings: %v", o.Warnings)
				case test.warning == "":
				case len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0].Cause, test.warning) ||
					!strings.Contains(o.Warnings[0].Fix, test.fix):
					t.Errorf("warnings: %v", o.Warnings)
				}
				for _, w := range o.Warnings {
					if fix, ok := strings.CutPrefix(w.Fix, "run: "); ok {
						exec(t, d.admin, fix) // what we tell people to run must work
					}
				}
				o, err = postgres.Inspect(t.Context(), conn, n)
				if err != nil || test.warning == "behind" && len(o.Warnings) > 0 {
					t.Errorf("after the fix: %v, %v", o.Warnings, err)
				}
			})
		}
	})
}
