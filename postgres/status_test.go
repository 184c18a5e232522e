package postgres_test

import (
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func (b *bed) look(t *testing.T) *postgres.Status {
	t.Helper()
	s, err := postgres.Look(t.Context(), b.admin, b.names)
	must(t, err)
	return s
}

func TestLookAtBacklog(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		if s := b.look(t); s.Backlog == nil || s.Backlog.Count != 0 || !s.Backlog.Oldest.IsZero() ||
			len(s.Problems) != 0 {
			t.Errorf("an empty outbox shows %+v with backlog %+v", s, s.Backlog)
		}
		exec(t, b.admin, insertEvents("outbox_event", "5"),
			"update outbox_event set created_at = clock_timestamp() - interval '90 s' where id = 3",
			"update outbox_event set created_at = '-infinity' where id = 4",
			"update outbox_event set published_at = now() where id = 1")
		s := b.look(t)
		age := s.Now.Sub(s.Backlog.Oldest)
		if s.Backlog.Count != 4 || s.Backlog.Capped || s.Backlog.LowestID != 2 || age < 90*time.Second ||
			age > 3*time.Minute {
			t.Errorf("backlog %+v, the oldest %v old", s.Backlog, age)
		}
		exec(t, b.admin, "update outbox_event set created_at = clock_timestamp() + interval '1 hour'")
		if s := b.look(t); s.Now.Sub(s.Backlog.Oldest) > -50*time.Minute {
			t.Errorf("an event of the future is %v old", s.Now.Sub(s.Backlog.Oldest))
		}
	})
}

// The count ends at its cap; what is said beyond comes with its source.
func TestLookDoesNotCountEverything(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	exec(t, b.admin, "alter table outbox_event set (autovacuum_enabled = off)", insertEvents("outbox_event", "100010"),
		"delete from outbox_event where id <= 5")
	s := b.look(t).Backlog
	if s == nil || s.Count != postgres.MaxCounted || !s.Capped || s.Estimate != 100_005 ||
		!strings.Contains(s.Source, "upper bound") {
		t.Errorf("without statistics the backlog is %+v", s)
	}
	exec(t, b.admin, "analyze outbox_event")
	s = b.look(t).Backlog
	if s == nil || s.Count != postgres.MaxCounted || s.Estimate < 100_001 || s.Estimate > 110_000 ||
		!strings.Contains(s.Source, "statistics") {
		t.Errorf("with statistics the backlog is %+v", s)
	}
}

func TestLookAtRelays(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		alive, stale, gone := b.join(t), b.join(t), b.join(t)
		for _, m := range []relay.Membership{alive, stale, gone} {
			beat(t, m)
		}
		act(t, alive, nil, 3)
		act(t, gone, nil, 2)
		gone.Close()
		waitFor(t, b.admin,
			"select count(*) = 2 from pg_locks where locktype = 'advisory' and objsubid = 2 and granted "+
				"and database = (select oid from pg_database where datname = current_database())")
		exec(t, b.admin,
			"update posthaste.member set beat_at = beat_at - interval '1 minute' where id = "+itoa(stale.ID()),
			"update posthaste.lane set owner = 77 where lane = 7", "update posthaste.outbox set next_lanes = 16")
		told := relay.Report{Published: 100, Held: 2, Trouble: "Kafka does not answer: naïve\x00"}
		for range 2 {
			if _, err := alive.Beat(t.Context(), told); err != nil {
				t.Fatal(err)
			}
			told.Published += 1000
		}
		all := b.look(t).Relays
		if len(all) != 1 {
			t.Fatalf("groups %+v", all)
		}
		r := all[0]
		if r.Lanes != 8 || r.NextLanes != 16 || len(r.Free) != 2 || len(r.Stray) != 1 || len(r.Members) != 3 ||
			r.Alive() != 1 {
			t.Fatalf("relays %+v", r)
		}
		m := r.Members[0]
		if m.State != postgres.MemberAlive || len(m.Lanes) != 3 || m.Published != 1100 || m.PerSecond == nil ||
			*m.PerSecond <= 0 ||
			m.Held != 2 || m.Trouble != "Kafka does not answer: na?ve?" {
			t.Errorf("the living relay is %+v", m)
		}
		if r.Members[1].State != postgres.MemberStale || r.Members[2].State != postgres.MemberGone ||
			len(r.Members[2].Lanes) != 2 {
			t.Errorf("the others are %+v", r.Members[1:])
		}
	})
}

func TestLookSeesGroups(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		must(t, postgres.SetGroup(t.Context(), b.admin, b.names,
			postgres.TopicGroup{Name: "critical", Topics: []relay.Pattern{"orders.*"}, Lanes: 4}))
		beat(t, b.join(t))
		r, err := postgres.ReadRelays(t.Context(), b.admin, b.names)
		must(t, err)
		if len(r) != 2 || r[0].Group != "" || r[0].Lanes != 8 || r[0].Alive() != 1 ||
			r[1].Group != "critical" || len(r[1].Topics) != 1 || len(r[1].Free) != 4 || r[1].Alive() != 0 {
			t.Errorf("groups %+v", r)
		}
	})
}

// malthe/pq#20, pganalyze/pganalyze-docs PR#154: forgotten prepared transactions held everything back.
func TestLookAtWriters(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		if w := b.look(t).Writers; w == nil || w.Open != 0 {
			t.Fatalf("without a writer: %+v", w)
		}
		writer, other := connect(t, b.config), connect(t, b.config)
		exec(t, writer, "begin", insertEvents("outbox_event", "1"), "prepare transaction '"+b.name+"'")
		exec(t, other, "set application_name = 'orders'", "begin", insertEvents("outbox_event", "1"))
		w := b.look(t).Writers
		exec(t, b.admin, "commit prepared '"+b.name+"'")
		if w.Open != 2 || len(w.Oldest) != 2 {
			t.Fatalf("writers %+v", w)
		}
		prepared, open := w.Oldest[0], w.Oldest[1]
		if prepared.Prepared == "" {
			prepared, open = open, prepared
		}
		if prepared.Prepared != b.name || prepared.PID != 0 || prepared.Since.IsZero() || prepared.User == "" {
			t.Errorf("the prepared transaction shows as %+v", prepared)
		}
		if open.PID == 0 || open.Application != "orders" || open.State != "idle in transaction" || open.Since.IsZero() {
			t.Errorf("the open transaction shows as %+v", open)
		}
		// Whoever may not see the sessions of others still learns that they are there.
		name, conn := b.role()
		exec(t, b.admin, "grant usage on schema posthaste, public to "+name, "grant select on outbox_event to "+name,
			"grant select on all tables in schema posthaste to "+name)
		s, err := postgres.Look(t.Context(), conn, b.names)
		must(t, err)
		if len(s.Problems) != 0 || len(s.Outbox.Warnings) != 0 || s.Backlog == nil || s.Backlog.Count != 1 ||
			s.Relays == nil ||
			s.Writers.Open != 1 || s.Writers.Oldest[0].PID == 0 {
			t.Errorf("a role with select alone sees %+v, warnings %v, writers %+v", s, s.Outbox.Warnings, s.Writers)
		}
	})
}

func TestLookNamesWhatIsWrong(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		exec(t, b.admin, insertEvents("outbox_event", "1"))
		locker := connect(t, b.config)
		exec(t, locker, "begin", "lock outbox_event")
		began := time.Now()
		if s := b.look(t); s.Backlog != nil || !strings.Contains(s.Uncounted, "is locked") || len(s.Problems) != 1 {
			t.Errorf("under a lock %+v", s)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("a look at a locked table took %v", took)
		}
		exec(t, locker, "rollback")

		exec(t, b.admin, "drop index ix_outbox_event_unpublished")
		if s := b.look(t); s.Backlog != nil || !strings.Contains(s.Uncounted, "no valid index") ||
			len(s.Problems) != 1 {
			t.Errorf("without its index %+v", s)
		}
		name, conn := b.role()
		s, err := postgres.Look(t.Context(), conn, b.names)
		must(t, err)
		if s.Backlog != nil || s.Relays != nil || len(s.Problems) == 0 ||
			!strings.Contains(s.Problems[len(s.Problems)-1].Cause, name) {
			t.Errorf("a role without rights sees %+v", s)
		}
		b.empty(t)
		if s := b.look(t); s.Backlog != nil || s.Relays != nil || s.Writers != nil || len(s.Problems) != 2 {
			t.Errorf("in an empty database %+v", s)
		}
	})
}
