package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func TestReadFilters(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for i := range 12 {
			b.write(t, fmt.Sprint("t", i%2), fmt.Sprint("k", i%3))
		}
		s := b.open(t)
		all := read(t, s, func(*relay.Read) {})
		if len(all) != 12 || !slices.IsSorted(ids(all)) {
			t.Fatalf("read %v, want 12 events in order", ids(all))
		}
		e := all[0]
		if string(e.Payload) != `{"n": 1.10}` || string(e.Headers) != `{"tenant": "a"}` ||
			e.AggregateType != "Order" || e.AggregateID != "k0" ||
			e.EventType != "order.confirmed.v1" || e.EventID == uuid.Nil || time.Since(e.CreatedAt).Abs() > time.Hour {
			t.Errorf("read %+v", e)
		}
		var lanes []int
		for _, e := range all {
			lanes = append(lanes, e.Lane)
		}
		expect := func(what string, change func(*relay.Read), want func(*relay.Event) bool) {
			t.Helper()
			got := ids(read(t, s, change))
			var wanted []int64
			for _, e := range all {
				if want(e) {
					wanted = append(wanted, e.ID)
				}
			}
			if !slices.Equal(got, wanted) {
				t.Errorf("%s: read %v, want %v", what, got, wanted)
			}
		}
		expect("above", func(r *relay.Read) { r.Above = 4 }, func(e *relay.Event) bool { return e.ID > 4 })
		expect("up to", func(r *relay.Read) { r.UpTo = 4 }, func(e *relay.Event) bool { return e.ID <= 4 })
		expect("limit", func(r *relay.Read) { r.Limit = 3 }, func(e *relay.Event) bool { return e.ID <= 3 })
		expect("without", func(r *relay.Read) { r.Without = []int64{2, 5} },
			func(e *relay.Event) bool { return e.ID != 2 && e.ID != 5 })
		for what, test := range map[string]struct {
			scope relay.Scope
			has   func(*relay.Event) bool
		}{
			"topic": {relay.Scope{Kind: relay.ScopeTopic, Topic: "t1"},
				func(e *relay.Event) bool { return e.Topic == "t1" }},
			"partition": {relay.Scope{Kind: relay.ScopePartition, Topic: "t1", Partition: 3},
				func(e *relay.Event) bool { return e.Topic == "t1" }},
			"key": {relay.Scope{Kind: relay.ScopeKey, Topic: "t0", Key: "k0"},
				func(e *relay.Event) bool { return e.Topic+e.Key == "t0k0" }},
			"key of all topics": {relay.Scope{Kind: relay.ScopeKeyOfAll, Key: "k2"},
				func(e *relay.Event) bool { return e.Key == "k2" }},
			"aggregate": {relay.Scope{Kind: relay.ScopeAggregate, AggregateType: "Order", AggregateID: "k1", Key: "k1"},
				func(e *relay.Event) bool { return e.AggregateID == "k1" }},
			"event": {relay.Scope{Kind: relay.ScopeEvent, ID: 7}, func(e *relay.Event) bool { return e.ID == 7 }},
		} {
			other := relay.Scope{Kind: relay.ScopeKey, Topic: "t1", Key: "k2"}
			hasOther := func(e *relay.Event) bool { return e.Topic+e.Key == "t1k2" }
			expect("only "+what, func(r *relay.Read) { r.Only = []relay.Scope{test.scope, other} },
				func(e *relay.Event) bool { return test.has(e) || hasOther(e) })
			expect("held "+what, func(r *relay.Read) { r.Held = []relay.Scope{test.scope, other} },
				func(e *relay.Event) bool { return !test.has(e) && !hasOther(e) })
		}
		expect("lanes", func(r *relay.Read) { r.Lanes = relay.NewLaneSet(8, lanes[0]) },
			func(e *relay.Event) bool { return e.Lane == lanes[0] })
	})
}

func TestReadStopsAtItsBytes(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for range 5 {
			b.write(t, "t", "k")
		}
		q := everything()
		q.Bytes = 1
		r := exchange(t, b.open(t), relay.Exchange{Read: q})
		if len(r.Events) != 1 || !r.More {
			t.Errorf("read %d events, more %v; want the first alone, and more to come", len(r.Events), r.More)
		}
	})
}

func TestSettle(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		for _, mode := range []relay.SettleMode{relay.SettleMark, relay.SettleDelete} {
			t.Run(string(mode), func(t *testing.T) {
				b := newBed(t, url, func(c *postgres.Config) { c.Settle = mode })
				for range 4 {
					b.write(t, "t", "k")
				}
				s := b.open(t)
				events := read(t, s, func(*relay.Read) {})
				// Another event has the id of the third by now, and somebody else has published the fourth.
				exec(t, b.admin, "update outbox_event set event_id = gen_random_uuid() where id = 3",
					"update outbox_event set published_at = now() where id = 4")
				r := exchange(t, s, relay.Exchange{Settle: refs(events)})
				if r.Settled != 2 {
					t.Errorf("settled %d, want 2", r.Settled)
				}
				if got := ids(read(t, s, func(*relay.Read) {})); !slices.Equal(got, []int64{3}) {
					t.Errorf("a read sees %v, want the third alone", got)
				}
			})
		}
	})
}

func TestSettleGivesLocksUp(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		b.write(t, "t", "k")
		s := b.open(t)
		events := read(t, s, func(*relay.Read) {})
		exec(t, b.admin, "begin", "select 1 from outbox_event for update")
		_, err := s.Exchange(t.Context(), relay.Exchange{Settle: refs(events)})
		if !errors.Is(err, relay.ErrRowsLocked) {
			t.Errorf("settle of a locked row: %v, want ErrRowsLocked", err)
		}
		exec(t, b.admin, "rollback")
	})
}

func TestHorizon(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		s := b.open(t)
		look := func() relay.Horizon {
			t.Helper()
			return *exchange(t, s, relay.Exchange{Read: everything(), Horizon: true}).Horizon
		}
		if h := look(); h.Last != 0 || len(h.Writers) != 0 {
			t.Errorf("a fresh table shows %+v; the sequence has given nothing out", h)
		}
		b.write(t, "t", "k")
		writer := connect(t, b.config)
		exec(t, writer, "begin", insertEvents("outbox_event", "3"))
		h := look()
		if h.Last != 4 || len(h.Writers) != 1 || h.Writers[0].Prepared {
			t.Fatalf("with a writer open: %+v", h)
		}
		exec(t, writer, "prepare transaction '"+b.name+"'")
		p := look()
		if len(p.Writers) != 1 || !p.Writers[0].Prepared {
			t.Errorf("with a prepared writer: %+v", p)
		}
		exec(t, writer, "commit prepared '"+b.name+"'")
		if h := look(); len(h.Writers) != 0 {
			t.Errorf("after its commit: %+v", h)
		}
	})
}

func TestClaimsDoNotOverlap(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for range 6 {
			b.write(t, "t", "k")
		}
		claim := func(limit int) relay.Claim {
			t.Helper()
			q := *everything()
			q.Limit = limit
			c, err := b.open(t).Claim(t.Context(), q)
			must(t, err)
			return c
		}
		first, second := claim(2), claim(3)
		if !slices.Equal(ids(first.Events()), []int64{1, 2}) || !slices.Equal(ids(second.Events()), []int64{3, 4, 5}) {
			t.Fatalf("claimed %v and %v", ids(first.Events()), ids(second.Events()))
		}
		must(t, first.Settle(t.Context(), refs(first.Events()), nil))
		must(t, second.Release(t.Context()))
		if got := ids(claim(10).Events()); !slices.Equal(got, []int64{3, 4, 5, 6}) {
			t.Errorf("after a settle and a release %v are left", got)
		}
	})
}

func TestStoreRefusals(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for name, c := range map[string]struct {
			break_ func(*pgx.ConnConfig, *postgres.Config)
			want   string
		}{
			"password": {func(c *pgx.ConnConfig, _ *postgres.Config) {
				c.User, c.Password = "nobody_"+b.name, "secret-word"
			}, "user"},
			"database": {func(c *pgx.ConnConfig, _ *postgres.Config) { c.Database = "none_" + b.name },
				"does not exist"},
			"table": {func(_ *pgx.ConnConfig, c *postgres.Config) { c.Names = names(t, "nowhere", "posthaste") },
				"posthaste migrate up"},
			"lanes": {func(_ *pgx.ConnConfig, c *postgres.Config) { c.Lanes = 16 }, "posthaste lanes"},
		} {
			t.Run(name, func(t *testing.T) {
				s := b.newStore(t, func(cfg *postgres.Config) {
					cfg.Conn = cfg.Conn.Copy()
					c.break_(cfg.Conn, cfg)
				})
				_, err := s.Open(t.Context())
				_, permanent := errors.AsType[*relay.Permanent](err)
				if !permanent || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "secret-word") {
					t.Errorf("open: %v; want a permanent error that says %q", err, c.want)
				}
			})
		}
		away := b.newStore(t, func(cfg *postgres.Config) {
			cfg.Conn = cfg.Conn.Copy()
			cfg.Conn.Host, cfg.Conn.Port, cfg.Conn.Fallbacks = "127.0.0.1", 1, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := away.Open(ctx)
		if _, permanent := errors.AsType[*relay.Permanent](err); err == nil || permanent {
			t.Errorf("open of a server that is away: %v; want an error that waiting may mend", err)
		}
	})
}

// ThreeDotsLabs/watermill#261, goauthentik/authentik#19939: names with a dash or capitals broke the SQL, and a
// search_path was refused or lost. Every statement of a relay runs here under such names and an empty search_path.
func TestOddNames(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		exec(t, d.admin, `create schema "Sales"`)
		n := names(t, `"Sales"."outbox-event"`, `"Post Haste"`)
		up(t, d.admin, n, postgres.MigrateOptions{Lanes: 8, Headers: true})
		exec(t, d.admin, insertEvents(n.Table.String(), "4"))
		b := &bed{database: d, names: n}
		b.grant(t, true)
		for _, mode := range []relay.SettleMode{relay.SettleMark, relay.SettleDelete} {
			b.store = b.newStore(t, func(c *postgres.Config) {
				c.Settle, c.Conn = mode, c.Conn.Copy()
				c.Conn.RuntimeParams["search_path"] = ""
			})
			s := b.open(t)
			q := everything()
			q.Limit = 1
			r := exchange(t, s, relay.Exchange{Read: q, Horizon: true})
			if len(r.Events) != 1 || r.Horizon.Last != 4 {
				t.Fatalf("%s: read %v, horizon %+v", mode, ids(r.Events), r.Horizon)
			}
			if r := exchange(t, s, relay.Exchange{Settle: refs(r.Events)}); r.Settled != 1 {
				t.Errorf("%s: settled %d", mode, r.Settled)
			}
			c, err := s.Claim(t.Context(), *q)
			must(t, err)
			must(t, c.Settle(t.Context(), refs(c.Events()), nil))
			m := b.join(t)
			beat(t, m)
			lanes := act(t, m, nil, 8)
			must(t, m.Release(t.Context(), lanes[:1]))
			must(t, m.Resize(t.Context()))
			must(t, m.Leave(t.Context()))
		}
		if left := query(t, d.admin,
			"select count(*) from "+n.Table.String()+" where published_at is null"); left != "0" {
			t.Errorf("%s events left", left)
		}
		if got := query(t, d.admin,
			"select count(*) from pg_class where relnamespace = 'public'::regnamespace"); got != "0" {
			t.Errorf("%s relations landed in public", got)
		}
	})
}
