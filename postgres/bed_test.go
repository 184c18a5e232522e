package postgres_test

import (
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// bed is one outbox and what a relay works on it with.
type bed struct {
	*database
	names postgres.Names
	relay *pgx.ConnConfig // of a role that has the least rights, as migrate --print-grants gives them
	store *postgres.Store
}

func newBed(t *testing.T, url string, change ...func(*postgres.Config)) *bed {
	t.Helper()
	d := newDatabase(t, url)
	n := names(t, "outbox_event", "posthaste")
	up(t, d.admin, n, postgres.MigrateOptions{Headers: true, Lanes: 8})
	b := &bed{database: d, names: n}
	var cfg postgres.Config
	for _, f := range change {
		f(&cfg)
	}
	b.grant(t, cfg.Settle == relay.SettleDelete)
	b.store = b.newStore(t, change...)
	return b
}

// grant makes the relay's role.
func (b *bed) grant(t *testing.T, deletes bool) {
	t.Helper()
	role, conn := b.role()
	roles := postgres.Roles{Writer: role, Relay: role, Operator: role, Deletes: deletes}
	sql, err := postgres.GrantsSQL(t.Context(), b.admin, b.names, roles)
	must(t, err)
	_, relays, _ := strings.Cut(sql, "-- The relays:")
	relays, _, _ = strings.Cut(relays, "-- Operators")
	exec(t, b.admin, "--"+relays)
	b.relay = conn.Config()
}

func (b *bed) newStore(t *testing.T, change ...func(*postgres.Config)) *postgres.Store {
	t.Helper()
	cfg := postgres.Config{Conn: b.relay, Names: b.names, Member: t.Name(), Version: "test"}
	for _, f := range change {
		f(&cfg)
	}
	s, err := postgres.NewStore(cfg)
	must(t, err)
	return s
}

func (b *bed) open(t *testing.T) relay.Session {
	t.Helper()
	s, err := b.store.Open(t.Context())
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// write inserts one event and returns its id.
func (b *bed) write(t *testing.T, topic, key string) int64 {
	t.Helper()
	var id int64
	err := b.admin.QueryRow(t.Context(), `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
values (gen_random_uuid(), 'Order', $2, 'order.confirmed.v1', '{"n":1.10}', $1, $2, '{"tenant":"a"}') returning id`,
		topic, key).Scan(&id)
	must(t, err)
	return id
}

func allLanes() relay.LaneSet { return relay.NewLaneSet(8, 0, 1, 2, 3, 4, 5, 6, 7) }

func everything() *relay.Read {
	return &relay.Read{Above: math.MinInt64, UpTo: math.MaxInt64, Lanes: allLanes(), Limit: 100, Bytes: 1 << 20}
}

func exchange(t *testing.T, s relay.Session, x relay.Exchange) relay.Result {
	t.Helper()
	r, err := s.Exchange(t.Context(), x)
	must(t, err)
	return r
}

func read(t *testing.T, s relay.Session, change func(*relay.Read)) []*relay.Event {
	t.Helper()
	q := everything()
	change(q)
	return exchange(t, s, relay.Exchange{Read: q}).Events
}

func ids(events []*relay.Event) []int64 {
	var ids []int64
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func refs(events []*relay.Event) []relay.Ref {
	var refs []relay.Ref
	for _, e := range events {
		refs = append(refs, relay.Ref{ID: e.ID, EventID: e.EventID})
	}
	return refs
}
