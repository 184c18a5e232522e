package postgres_test

import (
	"slices"
	"testing"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// What an operator asks for is done by a relay, each under its least rights, beside a column that is a service's own.
func TestRelayDoesWhatAnOperatorAsksFor(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		exec(t, b.admin, "alter table outbox_event add secret text default 's'")
		for _, key := range []string{"a", "a", "b", "b"} {
			b.write(t, "t", key)
		}
		b.park(t, "key", "e.id in (1, 2, 3)")
		m := b.join(t)
		act(t, m, nil, 8)
		s, op := b.open(t), b.operator(t)
		ask := func(what postgres.ParkedAct, id int64) *postgres.Request {
			c, err := op.Choose(t.Context(), postgres.ParkedFilter{Events: []postgres.EventRef{{ID: id}}})
			must(t, err)
			r, err := op.Request(t.Context(), what, c, alice)
			must(t, err)
			return r
		}
		discard, retry := ask(postgres.Discard, 3), ask(postgres.Retry, 1)
		var released []int64
		for _, r := range exchange(t, s, relay.Exchange{Requests: 10, Member: m.ID()}).Released {
			released = append(released, r.ID)
		}
		slices.Sort(released)
		if !slices.Equal(released, []int64{1, 3}) {
			t.Errorf("released %v", released)
		}
		if o, err := op.Await(t.Context(), discard); err != nil || o != (postgres.Outcome{Gone: 1}) {
			t.Errorf("discarded: %+v, %v", o, err)
		}
		exec(t, b.admin, "update outbox_event set published_at = now() where id = 1")
		if o, err := op.Await(t.Context(), retry); err != nil || o != (postgres.Outcome{Sent: 1}) {
			t.Errorf("retried: %+v, %v", o, err)
		}
		list := acts(t, op)
		last := list[len(list)-1]
		if last.Act != "discarded" || last.Reason != "INC-1" || *last.Events != 1 || last.Actor != list[0].Actor {
			t.Errorf("audit %+v", last)
		}
		want := query(t, b.admin, "select jsonb_build_object('id', 3, 'event_id', target -> 'event_id', "+
			"'aggregate_type', 'Order', 'aggregate_id', 'b', 'event_type', 'order.confirmed.v1', 'payload', "+
			"'{\"n\": 1.10}'::jsonb, 'topic', 't', 'partition_key', 'b', 'created_at', target -> 'created_at', "+
			"'published_at', null, 'headers', '{\"tenant\": \"a\"}'::jsonb) "+
			"from posthaste.audit where act = 'discarded'")
		if string(last.Target) != want {
			t.Errorf("kept %s, want %s", last.Target, want)
		}
	})
}
