package postgres_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
)

func anyMajor(t *testing.T) string { return testenv.Require(t, testenv.DatabaseURL) }

func itoa(n int) string { return strconv.Itoa(n) }

func (b *bed) events(t *testing.T) *postgres.Events {
	t.Helper()
	e, err := postgres.OpenEvents(t.Context(), connect(t, b.config), b.names)
	must(t, err)
	return e
}

func list(t *testing.T, e *postgres.Events, q postgres.EventList) (ids []int64, l postgres.Looked) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	if q.MaxLook == 0 {
		q.MaxLook = 1_000_000
	}
	l, err := e.List(t.Context(), q, func(s postgres.StoredEvent) error {
		ids = append(ids, s.ID)
		return nil
	})
	must(t, err)
	return ids, l
}

// waitingEvents writes ten events, ids 1 to 10, of topics a and b in turn, a minute apart; four are published.
func waitingEvents(t *testing.T, b *bed) {
	t.Helper()
	exec(t, b.admin, `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at,
                          published_at)
select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'Order', 'o-' || n, 'order.' || n % 3, '{}',
       chr(97 + n % 2), 'k-' || n % 5, '2026-01-01 00:00:00Z'::timestamptz + n * interval '1 minute',
       case when n < 5 then now() end
from generate_series(1, 10) n`)
}

func TestListEvents(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		waitingEvents(t, b)
		sixth := uuid.MustParse("00000000-0000-7000-8000-000000000006")
		e := b.events(t)
		at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
		type filter = postgres.EventFilter
		for name, c := range map[string]struct {
			q    postgres.EventList
			want []int64
		}{
			"newest first": {postgres.EventList{Limit: 3}, []int64{10, 9, 8}},
			"oldest first": {postgres.EventList{Limit: 3, OldestFirst: true}, []int64{1, 2, 3}},
			"below":        {postgres.EventList{Limit: 2, Below: 5}, []int64{4, 3}},
			"above":        {postgres.EventList{Limit: 2, Above: 5, OldestFirst: true}, []int64{6, 7}},
			"unpublished": {postgres.EventList{EventFilter: filter{State: postgres.EventsUnpublished}},
				[]int64{10, 9, 8, 7, 6, 5}},
			"published": {postgres.EventList{EventFilter: filter{State: postgres.EventsPublished}},
				[]int64{4, 3, 2, 1}},
			"topic":         {postgres.EventList{EventFilter: filter{Topic: "a"}, Limit: 2}, []int64{10, 8}},
			"topic and key": {postgres.EventList{EventFilter: filter{Topic: "a", Key: "k-2"}}, []int64{2}},
			"type":          {postgres.EventList{EventFilter: filter{Type: "order.0"}}, []int64{9, 6, 3}},
			"aggregate":     {postgres.EventList{EventFilter: filter{AggregateID: "o-7"}}, []int64{7}},
			"times":         {postgres.EventList{EventFilter: filter{Since: at(3), Until: at(6)}}, []int64{5, 4, 3}},
			"event id":      {postgres.EventList{EventFilter: filter{EventID: sixth}}, []int64{6}},
			"event id, published": {postgres.EventList{
				EventFilter: filter{State: postgres.EventsPublished, EventID: sixth}}, nil},
			"nothing": {postgres.EventList{EventFilter: filter{Key: "'; drop table outbox_event"}}, nil},
		} {
			if got, l := list(t, e, c.q); !slices.Equal(got, c.want) || l.Cut {
				t.Errorf("%s: got %v, looked %+v; want %v", name, got, l, c.want)
			}
		}
		got, l := list(t, e, postgres.EventList{EventFilter: filter{Type: "order.0"}, MaxLook: 5})
		if !slices.Equal(got, []int64{9, 6}) || !l.Cut || l.Rows != 5 || l.Last != 6 {
			t.Errorf("with five rows to look at: got %v, looked %+v", got, l)
		}
		got, l = list(t, e, postgres.EventList{EventFilter: filter{Type: "order.0"}, Below: l.Last})
		if !slices.Equal(got, []int64{3}) || l.Cut {
			t.Errorf("going on from there: got %v, looked %+v", got, l)
		}
	})
}

// A walk over many windows finds each event once, and --since ends soon after the last that can match.
func TestListWalksInWindows(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	exec(t, b.admin, `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
select gen_random_uuid(), 'Order', 'o', 'order.done', '{}', 't', case when n % 10000 = 0 then 'rare' else 'k' end,
       now() - (60000 - n) * interval '1 s'
from generate_series(1, 60000) n`)
	e := b.events(t)
	for _, oldest := range []bool{true, false} {
		want := []int64{10000, 20000, 30000, 40000, 50000, 60000}
		if !oldest {
			slices.Reverse(want)
		}
		got, l := list(t, e, postgres.EventList{EventFilter: postgres.EventFilter{Key: "rare"}, OldestFirst: oldest})
		if !slices.Equal(got, want) || l.Cut || l.Rows != 60000 {
			t.Errorf("oldest first %v: got %v, looked %+v", oldest, got, l)
		}
	}
	now, err := e.Now(t.Context())
	must(t, err)
	got, l := list(t, e, postgres.EventList{EventFilter: postgres.EventFilter{Since: now.Add(-time.Hour), Key: "rare"}})
	if !slices.Equal(got, []int64{60000}) || l.Cut || l.Rows >= 60000 {
		t.Errorf("since an hour ago: got %v, looked %+v; want an early end", got, l)
	}
	if got, l := list(t, e, postgres.EventList{Limit: 5}); len(got) != 5 || l.Rows != 5 {
		t.Errorf("a list without a filter looked at %d rows for %d", l.Rows, len(got))
	}
}

func TestFindEvent(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		payload := `{"n": 12345678901234567890.10, "text": "ü ", "nested": {"a": [1, null, 1e400]}}`
		exec(t, b.admin, `insert into outbox_event
(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers, created_at)
values ('0190f3a2-7c1e-7b54-9d0e-3f6a5b8c1d2e', 'Order', 'o-1', 'order.confirmed.v1', '`+payload+`', 't', 'k',
        '{"tenant":"a"}', 'infinity')`)
		want := query(t, b.admin, "select payload::text from outbox_event")
		e := b.events(t)
		for _, text := range []string{"1", "0190f3a2-7c1e-7b54-9d0e-3f6a5b8c1d2e"} {
			ref, err := postgres.ParseEventRef(text)
			must(t, err)
			found, err := e.Find(t.Context(), ref)
			must(t, err)
			if len(found) != 1 || string(found[0].Payload) != want || string(found[0].Headers) != `{"tenant": "a"}` ||
				found[0].CreatedAt.Year() != 9999 || !found[0].PublishedAt.IsZero() {
				t.Errorf("%s: found %+v", text, found)
			}
		}
		if found, err := e.Find(t.Context(), postgres.EventRef{ID: 2}); err != nil || len(found) != 0 {
			t.Errorf("found %v, %v where nothing is", found, err)
		}
		if _, err := postgres.ParseEventRef("order-1"); err == nil {
			t.Error("a text that is no id was taken")
		}
	})
}

func TestEventsNeedSelectAlone(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		waitingEvents(t, b)
		name, conn := b.role()
		_, err := postgres.OpenEvents(t.Context(), conn, b.names)
		wantProblem(t, err, postgres.ErrRights, "lacks select")
		exec(t, b.admin, "grant usage on schema public to "+name, "grant select on outbox_event to "+name)
		e, err := postgres.OpenEvents(t.Context(), conn, b.names)
		must(t, err)
		if got, _ := list(t, e, postgres.EventList{}); len(got) != 10 {
			t.Errorf("listed %v", got)
		}
		exec(t, b.admin, "drop index ix_outbox_event_unpublished")
		e, err = postgres.OpenEvents(t.Context(), conn, b.names)
		must(t, err)
		unpublished := postgres.EventFilter{State: postgres.EventsUnpublished}
		_, err = e.List(t.Context(), postgres.EventList{EventFilter: unpublished, Limit: 1, MaxLook: 1}, nil)
		wantProblem(t, err, postgres.ErrIndex, "no valid index")
		locker := connect(t, b.config)
		exec(t, locker, "begin", "lock outbox_event")
		_, err = e.Find(t.Context(), postgres.EventRef{ID: 1})
		if err == nil || !strings.Contains(err.Error(), "is locked") {
			t.Errorf("find under a lock: %v", err)
		}
	})
}
