package postgres_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
)

func parkedIDs(t *testing.T, op *postgres.Operator, q postgres.ParkedList) (ids []int64, more bool) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	more, err := op.Parked(t.Context(), q, func(p postgres.Parked) error {
		ids = append(ids, p.ID)
		return nil
	})
	must(t, err)
	return ids, more
}

func TestListParked(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for i := range 6 {
			b.write(t, fmt.Sprintf("t%d", i%2), fmt.Sprintf("k%d", i))
		}
		b.park(t, "key", "e.id <= 4")
		b.park(t, "event", "e.id = 5")
		b.park(t, "aggregate", "e.id = 6")
		exec(t, b.admin, "update posthaste.parked set parked_at = parked_at - interval '1 hour' where id = 2",
			"update posthaste.parked set class = 'odd' where id = 3",
			"update posthaste.parked set request = 'retry', requested_by = 'bob', requested_at = now() where id = 4")
		op := b.operator(t)
		now, err := op.Now(t.Context())
		must(t, err)
		k3, no, yes := "k3", false, true
		var third postgres.EventRef
		must(t, b.admin.QueryRow(t.Context(), "select event_id from outbox_event where id = 3").Scan(&third.EventID))
		for what, c := range map[string]struct {
			f    postgres.ParkedFilter
			want []int64
		}{
			"all":         {postgres.ParkedFilter{}, []int64{6, 5, 4, 3, 2, 1}},
			"a topic":     {postgres.ParkedFilter{Topic: "t0"}, []int64{5, 3, 1}},
			"a pattern":   {postgres.ParkedFilter{Topic: "t*"}, []int64{6, 5, 4, 3, 2, 1}},
			"a key":       {postgres.ParkedFilter{Key: &k3}, []int64{4}},
			"no such key": {postgres.ParkedFilter{Key: new(string)}, nil},
			"a class":     {postgres.ParkedFilter{Class: "odd"}, []int64{3}},
			"a scope":     {postgres.ParkedFilter{Scope: "aggregate"}, []int64{6}},
			"until":       {postgres.ParkedFilter{Until: now.Add(-time.Minute)}, []int64{2}},
			"since":       {postgres.ParkedFilter{Since: now.Add(-time.Minute), Topic: "t1"}, []int64{6, 4}},
			"requested":   {postgres.ParkedFilter{Requested: &yes}, []int64{4}},
			"unrequested": {postgres.ParkedFilter{Requested: &no, Topic: "t1"}, []int64{6, 2}},
			"ids":         {postgres.ParkedFilter{Events: []postgres.EventRef{{ID: 1}, {ID: 77}}}, []int64{1}},
			"both ids":    {postgres.ParkedFilter{Events: []postgres.EventRef{{ID: 1}, third}}, []int64{3, 1}},
		} {
			if got, _ := parkedIDs(t, op, postgres.ParkedList{ParkedFilter: c.f}); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", what, got, c.want)
			}
		}
		got, more := parkedIDs(t, op, postgres.ParkedList{Page: postgres.Page{Limit: 2, OldestFirst: true, Above: 1}})
		if !slices.Equal(got, []int64{2, 3}) || !more {
			t.Errorf("a page: %v, more %v", got, more)
		}
		got, more = parkedIDs(t, op, postgres.ParkedList{Page: postgres.Page{Limit: 2, Below: 3}})
		if !slices.Equal(got, []int64{2, 1}) || more {
			t.Errorf("the last page: %v, more %v", got, more)
		}
	})
}

// What is shown of one event: its row, or that it is published or gone, and what waits behind it.
func TestShowParked(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for range 3 {
			b.write(t, "t", "k")
			b.write(t, "t2", "k")
		}
		b.park(t, "key", "e.id in (1, 3)")
		b.park(t, "aggregate", "e.id = 2")
		b.park(t, "event", "e.id = 4")
		exec(t, b.admin, "update outbox_event set published_at = now() where id = 3",
			"delete from outbox_event where id = 4")
		op := b.operator(t)
		show := func(id int64) postgres.ParkedDetail {
			t.Helper()
			found, err := op.ShowParked(t.Context(), postgres.EventRef{ID: id})
			must(t, err)
			if len(found) != 1 {
				t.Fatalf("event %d: %+v", id, found)
			}
			return found[0]
		}
		if d := show(1); d.Event == nil || !d.Event.PublishedAt.IsZero() || d.Behind.Events != 1 || d.Behind.Capped ||
			string(d.Event.Payload) != `{"n": 1.10}` || d.Reason != "too large" || d.Attempts != 1 {
			t.Errorf("a parked event: %+v", d)
		}
		if d := show(2); d.Behind.Events != 2 {
			t.Errorf("behind an aggregate wait %+v", d.Behind)
		}
		if d := show(3); d.Event == nil || d.Event.PublishedAt.IsZero() {
			t.Errorf("a published one: %+v", d)
		}
		if d := show(4); d.Event != nil || d.Behind.Events != 0 {
			t.Errorf("one that is gone: %+v", d)
		}
		// Another event under the same id is not the one that is parked.
		exec(t, b.admin, "update outbox_event set event_id = gen_random_uuid() where id = 1")
		if d := show(1); d.Event != nil {
			t.Errorf("a stranger is shown: %+v", d.Event)
		}
		if found, err := op.ShowParked(t.Context(), postgres.EventRef{ID: math.MaxInt64}); err != nil || found != nil {
			t.Errorf("no event: %+v, %v", found, err)
		}
	})
}

func TestRequest(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for i := range 4 {
			b.write(t, fmt.Sprintf("t%d", i%2), "k")
		}
		b.park(t, "key", "true")
		conn := b.operatorConn(t)
		op := openOperator(t, conn, b.names)
		c, err := op.Choose(t.Context(),
			postgres.ParkedFilter{Topic: "t0", Events: []postgres.EventRef{{ID: 1}, {ID: 2}}})
		must(t, err)
		if len(c.Refs) != 1 || c.Refs[0].ID != 1 || c.Keys != 1 || !slices.Equal(c.Topics, []string{"t0"}) ||
			len(c.Missing) != 1 || c.Missing[0].ID != 2 || c.More || c.Requested != 0 {
			t.Fatalf("chosen %+v", c)
		}
		if _, err := op.Request(t.Context(), postgres.Discard, c, postgres.By{Actor: "alice"}); err == nil {
			t.Error("a discard without a reason is taken")
		}
		if _, err := op.Request(t.Context(), postgres.Retry, c, postgres.By{Reason: "why"}); err == nil {
			t.Error("nobody may ask")
		}
		r, err := op.Request(t.Context(), postgres.Retry, c, alice)
		must(t, err)
		if len(r.Refs) != 1 || r.Replaced != 0 || r.At.IsZero() {
			t.Errorf("asked %+v", r)
		}

		// A choice stands, whatever is parked or freed afterwards; a second request replaces the first.
		c, err = op.Choose(t.Context(), postgres.ParkedFilter{})
		if must(t, err); len(c.Refs) != 4 || c.Requested != 1 || c.Keys != 2 {
			t.Fatalf("chosen %+v", c)
		}
		exec(t, b.admin, "delete from posthaste.parked where id = 2",
			"update posthaste.parked set event_id = gen_random_uuid() where id = 3")
		b.write(t, "t0", "late")
		b.park(t, "key", "e.id = 5")
		r, err = op.Request(t.Context(), postgres.Discard, c, alice)
		must(t, err)
		if len(r.Refs) != 2 || r.Replaced != 1 {
			t.Errorf("asked %+v", r)
		}
		got := query(t, b.admin, `
select string_agg(concat_ws(' ', id, request, requested_by, request_reason), ', ' order by id)
from posthaste.parked where request is not null`)
		who := "alice@bastion, database user " + conn.Config().User
		if got != "1 discard "+who+" INC-1, 4 discard "+who+" INC-1" {
			t.Errorf("requests %s", got)
		}
		list := acts(t, op)
		if len(list) != 2 || list[0].Act != "retry" || *list[0].Events != 1 || list[1].Act != "discard" ||
			*list[1].Events != 2 || list[1].Reason != "INC-1" || list[1].Actor != who ||
			string(list[1].Target) != `{"all": true, "ids": [1, 4], "topics": ["t0", "t1"], "replaced": 1}` {
			t.Errorf("audit %+v, target %s", list, list[1].Target)
		}
	})
}

// A relay that deals with the same rows is waited for, and what it took is passed over.
func TestRequestMeetsARelay(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	b.write(t, "t", "k")
	b.write(t, "t", "k")
	b.park(t, "key", "true")
	op, relay := b.operator(t), connect(t, b.config)
	c, err := op.Choose(t.Context(), postgres.ParkedFilter{})
	must(t, err)
	exec(t, relay, "begin", "delete from posthaste.parked where id = 1")
	done := make(chan *postgres.Request, 1)
	go func() {
		r, err := op.Request(context.Background(), postgres.Retry, c, alice)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	waitFor(t, b.admin, "select exists (select from pg_locks l join pg_database d on d.oid = l.database "+
		"where d.datname = current_database() and not l.granted) or exists (select from pg_stat_activity "+
		"where datname = current_database() and wait_event_type = 'Lock')")
	exec(t, relay, "commit")
	if r := <-done; r == nil || len(r.Refs) != 1 || r.Refs[0].ID != 2 {
		t.Errorf("asked %+v", r)
	}
}

func TestAwaitSeesWhatBecomesOfEvents(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		for range 8 {
			b.write(t, "t", "k")
		}
		b.park(t, "key", "true")
		op := b.operator(t)
		c, err := op.Choose(t.Context(), postgres.ParkedFilter{})
		must(t, err)
		r, err := op.Request(t.Context(), postgres.Retry, c, alice)
		must(t, err)
		exec(t, b.admin, "delete from posthaste.parked where id in (1, 2, 3)", // 4 pending
			"update outbox_event set published_at = now() where id = 1", // sent
			"delete from outbox_event where id = 2",                     // gone; 3 is released
			"delete from posthaste.parked where id in (5, 6, 8)",
			"update outbox_event set event_id = gen_random_uuid() where id = 8", // gone: another event has its id, and
			"update posthaste.parked set request = 'discard', requested_at = now() + interval '1 s' where id = 7")
		b.park(t, "key", "e.id in (5, 6, 8)") // again, but that one is parked for the first time
		past, cancel := context.WithCancel(t.Context())
		cancel()
		o, err := op.Await(past, r)
		must(t, err)
		if want := (postgres.Outcome{Pending: 1, Replaced: 1, Again: 2, Released: 1, Sent: 1, Gone: 2}); o != want {
			t.Errorf("outcome %+v, want %+v", o, want)
		}
		exec(t, b.admin, "update outbox_event set published_at = now() where id = 3",
			"delete from posthaste.parked where id = 4", "update outbox_event set published_at = now() where id = 4")
		o, err = op.Await(t.Context(), r)
		must(t, err)
		if want := (postgres.Outcome{Replaced: 1, Again: 2, Sent: 3, Gone: 2}); o != want {
			t.Errorf("in the end %+v, want %+v", o, want)
		}
	})
}

// With 100,000 parked events every look ends within the limit of its statements, and an act within its own.
func TestOperatorWithVeryManyParked(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	exec(t, b.admin, `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', n::text, 'order.confirmed.v1', '{"n":1}', 't' || n % 20, 'k' || n % 10000
from generate_series(1, 100010) n`)
	b.park(t, "event", "e.id <= 90000")
	b.park(t, "key", "e.id > 90000")
	exec(t, b.admin, "analyze")
	op := b.operator(t)
	took := func(what string, began time.Time) { t.Logf("%s took %v", what, time.Since(began)) }

	began, key := time.Now(), "k7"
	if got, more := parkedIDs(t, op, postgres.ParkedList{}); len(got) != 100 || got[0] != 100010 || !more {
		t.Errorf("listed %d from %d, more %v", len(got), got[0], more)
	}
	took("a list", began)
	began = time.Now()
	q := postgres.ParkedList{ParkedFilter: postgres.ParkedFilter{Key: &key, Class: "refused"}}
	if got, more := parkedIDs(t, op, q); len(got) != 11 || more {
		t.Errorf("listed %v, more %v", got, more)
	}
	took("a filtered list", began)
	began = time.Now()
	list, left, err := op.Holds(t.Context(), postgres.HoldFilter{Limit: 50})
	if must(t, err); len(list) != 50 || left != 20+10000-50 {
		t.Errorf("%d holds and %d more", len(list), left)
	}
	took("holds", began)
	began = time.Now()
	if s := b.look(t); s.Parked == nil || s.Parked.Count != postgres.MaxCounted || !s.Parked.Capped {
		t.Errorf("status has %+v", s.Parked)
	}
	took("status", began)
	began = time.Now()
	c, err := op.Choose(t.Context(), postgres.ParkedFilter{})
	if must(t, err); len(c.Refs) != postgres.MaxChosen || !c.More {
		t.Errorf("chosen %d, more %v", len(c.Refs), c.More)
	}
	took("a choice of all", began)
	c.Refs = c.Refs[:20_000]
	began = time.Now()
	r, err := op.Request(t.Context(), postgres.Retry, c, alice)
	must(t, err)
	took("a request for 20,000", began)
	began = time.Now()
	past, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := op.Await(past, r); err != nil || o.Pending != len(c.Refs) {
		t.Errorf("outcome %+v, %v", o, err)
	}
	took("a look at what became of them", began)
}
