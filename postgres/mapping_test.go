package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// A table as somebody else might have made it: other names, fewer columns, and the aggregate's id as the key.
const foreignTable = `
create table "Mail.box" (
    seq serial primary key, "Uuid" uuid not null unique, subject_id text not null, body json not null,
    topic varchar(249) not null, "sent""at" timestamptz, status text not null default 'NEW');
insert into "Mail.box" ("Uuid", subject_id, body, topic)
select gen_random_uuid(), 'k' || n % 3, '{"n" : 1.10}', 't' || n % 2 from generate_series(1, 12) n`

const foreignColumns = `id=seq,event_id="Uuid",aggregate_id=subject_id,partition_key=subject_id,payload=body,` +
	`published_at="sent""at",event_type=`

// Every statement of a relay knows the mapping: migration, index, reads with all their filters, marks, deletes, claims.
func TestForeignTableIsAdopted(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		for _, mode := range []relay.SettleMode{relay.SettleMark, relay.SettleDelete} {
			d := newDatabase(t, url)
			exec(t, d.admin, foreignTable)
			n, err := names(t, `"Mail.box"`, "posthaste").WithColumns(foreignColumns)
			must(t, err)
			_, err = postgres.Migrate(t.Context(), d.admin, names(t, `"Mail.box"`, "posthaste"),
				postgres.MigrateOptions{})
			wantProblem(t, err, postgres.ErrColumn, "such as POSTHASTE_COLUMNS=payload=NAME")
			wantProblem(t, err, postgres.ErrColumn, `such as POSTHASTE_COLUMNS=event_id="Uuid"`)
			m := up(t, d.admin, n, postgres.MigrateOptions{Lanes: 8})
			last := m.Steps[len(m.Steps)-1].SQL
			if !strings.Contains(last, `("seq")`+"\n"+`    where "sent""at" is null`) {
				t.Errorf("last step: %s", last)
			}
			b := &bed{database: d, names: n}
			b.grant(t, mode == relay.SettleDelete)
			b.store = b.newStore(t, func(c *postgres.Config) { c.Settle = mode })
			s := b.open(t)
			all := read(t, s, func(*relay.Read) {})
			if len(all) != 12 {
				t.Fatalf("read %d events", len(all))
			}
			e := all[0]
			if e.Key != "k1" || e.AggregateID != "k1" || e.Topic != "t1" || string(e.Payload) != `{"n" : 1.10}` ||
				e.EventType != "" || e.AggregateType != "" || !e.CreatedAt.IsZero() || e.Headers != nil {
				t.Errorf("read %+v", e)
			}
			some := read(t, s, func(r *relay.Read) {
				r.Without = []int64{2}
				r.Held = []relay.Scope{{Kind: relay.ScopeTopic, Topic: "t1"},
					{Kind: relay.ScopeKey, Topic: "t0", Key: "k0"}}
				r.Lanes = relay.NewLaneSet(8, all[1].Lane, all[3].Lane, all[5].Lane)
			})
			for _, e := range some {
				if e.ID == 2 || e.Topic != "t0" || e.Key == "k0" {
					t.Errorf("a filter let %+v pass", e)
				}
			}
			rest := everything()
			rest.Without = ids(all[:4])
			r := exchange(t, s, relay.Exchange{Settle: refs(all[:4]), Read: rest, Horizon: true})
			if r.Settled != 4 || len(r.Events) != 8 || r.Horizon.Last != 12 {
				t.Errorf("settled %d, read %v, horizon %+v", r.Settled, ids(r.Events), r.Horizon)
			}
			c, err := s.Claim(t.Context(), *everything())
			must(t, err)
			must(t, c.Settle(t.Context(), refs(c.Events()), nil))
			if got := ids(read(t, s, func(*relay.Read) {})); len(got) > 0 {
				t.Errorf("%v are left", got)
			}
			left := query(t, d.admin, `select count(*) || ' ' || count("sent""at") from "Mail.box"`)
			want := map[relay.SettleMode]string{relay.SettleMark: "12 12", relay.SettleDelete: "0 0"}[mode]
			if left != want {
				t.Errorf("%s: %s events and marks are left, want %s", mode, left, want)
			}
			_, err = postgres.MigrateDown(t.Context(), d.admin, n, postgres.MigrateOptions{})
			must(t, err)
		}
	})
}

// Headers, aggregate_type, event_type and created_at are what a relay lives without, and events go out without them.
func TestMissingColumnsAreNulls(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		exec(t, d.admin, seedTable("outbox_event", "i"), insertEvents("outbox_event", "1"), "alter table outbox_event "+
			"drop aggregate_type, drop aggregate_id, drop event_type, drop created_at")
		n := names(t, "outbox_event", "posthaste")
		up(t, d.admin, n, postgres.MigrateOptions{Lanes: 8})
		o, err := postgres.Inspect(t.Context(), d.admin, n)
		must(t, err)
		lacks := []string{"aggregate_type", "aggregate_id", "event_type", "created_at"}
		if !slices.Equal(o.Lacks, lacks) || len(o.Warnings) > 0 || len(o.Notes) != 4 {
			t.Errorf("%+v", o)
		}
		b := &bed{database: d, names: n}
		b.grant(t, false)
		b.store = b.newStore(t)
		all := read(t, b.open(t), func(*relay.Read) {})
		if len(all) != 1 || all[0].Key != "k" || all[0].AggregateID+all[0].AggregateType+all[0].EventType != "" ||
			!all[0].CreatedAt.IsZero() {
			t.Errorf("read %+v", all)
		}
	})
}

// A new table is made under the names that were given, and differs then by nothing but what was asked for.
func TestNewTableUnderOtherNames(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n, err := names(t, "outbox_event", "posthaste").WithColumns(
			`id=seq,payload=body,created_at=,partition_key=aggregate_id,headers="He Ad"`)
		must(t, err)
		up(t, d.admin, n, postgres.MigrateOptions{Headers: true})
		o, err := postgres.Inspect(t.Context(), d.admin, n)
		must(t, err)
		if !o.HasHeaders || !o.SequenceTrusted || len(o.Warnings) > 0 || len(o.Notes) != 1 {
			t.Errorf("%+v", o)
		}
		if again := up(t, d.admin, n, postgres.MigrateOptions{Headers: true}); len(again.Steps) > 0 {
			t.Errorf("second run: %v", again.Steps)
		}
	})
}

// The printed rights are enough for each role, name everything needed, and hold people off the rest.
func TestGrants(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		exec(t, b.admin, "alter table outbox_event add secret text")
		operator, conn := b.role()
		roles := postgres.DefaultRoles()
		roles.Operator = operator
		sql, err := postgres.GrantsSQL(t.Context(), b.admin, b.names, roles)
		must(t, err)
		_, operators, _ := strings.Cut(sql, "-- Operators")
		exec(t, b.admin, "--"+operators)
		b.write(t, "t", "k")

		o, err := postgres.Inspect(t.Context(), conn, b.names, postgres.RightRead)
		if must(t, err); !o.SequenceTrusted || len(o.Warnings) > 0 {
			t.Errorf("%+v", o)
		}
		_, err = postgres.SetLanes(t.Context(), conn, b.names, 16)
		must(t, err)
		relays, err := pgx.ConnectConfig(t.Context(), b.relay)
		must(t, err)
		defer relays.Close(t.Context())
		for _, forbidden := range []struct {
			conn      *pgx.Conn
			statement string
		}{
			{conn, "update outbox_event set published_at = now()"}, {conn, "select secret from outbox_event"},
			{conn, "update posthaste.outbox set lanes = 1"}, {conn, "delete from posthaste.member"},
			{conn, "delete from outbox_event"}, {conn, "delete from posthaste.parked"},
			{conn, "update posthaste.parked set topic = 'x'"}, {conn, "update posthaste.audit set actor = 'x'"},
			{conn, "delete from posthaste.audit"}, {conn, "update posthaste.pause set reason = 'x'"},
			{relays, "update outbox_event set topic = 'x'"}, {relays, "select from posthaste.audit"},
			{relays, "delete from posthaste.pause"},
			{relays, "insert into outbox_event (topic) values ('x')"}, {relays, "select secret from outbox_event"},
			{relays, "delete from posthaste.outbox"}, {relays, "insert into posthaste.schema_version values (9)"},
		} {
			if _, err := forbidden.conn.Exec(t.Context(), forbidden.statement); err == nil {
				t.Errorf("it may %s", forbidden.statement)
			}
		}

		exec(t, b.admin, "revoke update (next_lanes) on posthaste.outbox from "+operator)
		_, err = postgres.SetLanes(t.Context(), conn, b.names, 32)
		wantProblem(t, err, postgres.ErrRights, "permission denied for table outbox")
		exec(t, b.admin, "revoke select (topic) on outbox_event from "+operator)
		_, err = postgres.Inspect(t.Context(), conn, b.names, postgres.RightRead)
		wantProblem(t, err, postgres.ErrRights, "lacks select on")

		_, err = postgres.GrantsSQL(t.Context(), b.admin, names(t, "nowhere", "posthaste"), roles)
		wantProblem(t, err, postgres.ErrNotRegistered, "posthaste migrate up --table")
	})
}
