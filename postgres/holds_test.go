package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// describe is a hold in a line, without its times.
func describe(h postgres.Hold) string {
	waiting := "?"
	if h.Waiting != nil {
		waiting = fmt.Sprint(h.Waiting.Events)
		if h.Waiting.Capped {
			waiting += "+"
		}
	}
	return fmt.Sprintf("%s %d/%s/%s/%s waiting %s parked %d %s", h.Kind, h.Scope.Kind, h.Scope.Topic, h.Scope.Key,
		h.Scope.AggregateType, waiting, h.Parked, strings.Join(h.Members, ","))
}

func holds(t *testing.T, op *postgres.Operator, f postgres.HoldFilter) string {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	list, more, err := op.Holds(t.Context(), f)
	must(t, err)
	var lines []string
	for _, h := range list {
		lines = append(lines, describe(h))
		if h.Since.IsZero() || h.Reason == "" {
			t.Errorf("since when and why waits %+v?", h)
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more", more))
	}
	return strings.Join(lines, "\n")
}

func TestHolds(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		op := b.operator(t)
		if got := holds(t, op, postgres.HoldFilter{}); got != "" {
			t.Errorf("in an empty outbox waits %s", got)
		}
		for i := range 12 {
			b.write(t, fmt.Sprintf("t%d", i%3), fmt.Sprintf("k%d", i%2))
		}
		// By id: 1 t0 k0, 2 t1 k1, 3 t2 k0, 4 t0 k1, 5 t1 k0, 6 t2 k1, and again.
		b.park(t, "key", "e.id in (1, 7)")
		b.park(t, "aggregate", "e.id = 2")
		b.park(t, "event", "e.id in (3, 9)")
		exec(t, b.admin, "update outbox_event set published_at = now() where id = 12")
		for _, s := range []relay.Scope{{Kind: relay.ScopeKeyOfAll, Key: "k1"}, {Kind: relay.ScopeTopic, Topic: "t1"},
			{Kind: relay.ScopeKey, Topic: "t2", Key: "k0"}, {Kind: relay.ScopeAll}} {
			_, err := op.Pause(t.Context(), s, alice)
			must(t, err)
		}
		one, two := b.join(t), b.join(t)
		exec(t, b.admin, `update posthaste.member set name = 'm' || id, waiting = jsonb_build_array(
    jsonb_build_object('topic', 't0', 'reason', 'missing', 'tries', id, 'since', '2026-01-01T00:00:0' || id || 'Z',
                       'next_try', '2026-01-01T01:00:00Z'))`,
			`update posthaste.member set waiting = waiting || jsonb_build_array(jsonb_build_object('topic', 't2',
    'partition', 3, 'reason', 'no answer', 'tries', 1, 'since', '2026-01-01T00:00:00Z',
    'next_try', '0001-01-01T00:00:00Z')) where id = `+itoa(one.ID()))
		members := fmt.Sprintf("m%d,m%d", one.ID(), two.ID())
		want := strings.Join([]string{
			"pause 3//k1/ waiting 5 parked 0 ",
			"pause 1/t1// waiting 4 parked 0 ",
			"pause 2/t2/k0/ waiting 2 parked 0 ",
			"pause 0/// waiting 11 parked 0 ",
			"topic 1/t0// waiting 4 parked 0 " + members,
			fmt.Sprintf("partition 6/t2// waiting ? parked 0 m%d", one.ID()),
			"parked 2/t0/k0/ waiting 0 parked 2 ",
			"parked 4//k1/Order waiting 4 parked 1 ",
			"parked 5/t2// waiting ? parked 2 ",
		}, "\n")
		if got := holds(t, op, postgres.HoldFilter{}); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		key := "k0"
		want = strings.Join([]string{
			"pause 2/t2/k0/ waiting 2 parked 0 ",
			"pause 0/// waiting 11 parked 0 ",
			fmt.Sprintf("partition 6/t2// waiting ? parked 0 m%d", one.ID()),
			"parked 5/t2// waiting ? parked 2 ",
		}, "\n")
		if got := holds(t, op, postgres.HoldFilter{Topic: "*2", Key: &key}); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if got := holds(t, op, postgres.HoldFilter{Limit: 1}); !strings.HasSuffix(got, "\n2 more") {
			t.Errorf("got\n%s", got)
		}
		list, _, err := op.Holds(t.Context(), postgres.HoldFilter{Topic: "t0", Limit: 1})
		must(t, err)
		for _, h := range list {
			if h.Kind == postgres.HoldTopic && (!h.Since.Equal(time.Date(2026, 1, 1, 0, 0, one.ID(), 0, time.UTC)) ||
				h.Tries != two.ID()) {
				t.Errorf("two members hold %+v", h)
			}
		}

		// What a newer relay says in another way hides nothing else.
		exec(t, b.admin, `update posthaste.member set waiting = '{"topics": 7}'`)
		if got := holds(t, op, postgres.HoldFilter{Topic: "t0"}); strings.Contains(got, "topic 1/") ||
			!strings.Contains(got, "parked 2/t0/k0/") {
			t.Errorf("got\n%s", got)
		}
	})
}

// Behind a long backlog the count says that it is not the whole one.
func TestWaitingIsCapped(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	b.write(t, "t", "held")
	exec(t, b.admin, insertEvents("outbox_event", "100000"))
	b.write(t, "t", "held")
	b.park(t, "key", "e.id = 1")
	op := b.operator(t)
	if got := holds(t, op, postgres.HoldFilter{}); got != "parked 2/t/held/ waiting 0+ parked 1 " {
		t.Errorf("got %s", got)
	}
	w, err := op.CountWaiting(t.Context(), relay.Scope{Kind: relay.ScopeTopic, Topic: "t1"})
	if must(t, err); w.Events != postgres.MaxCounted-1 || !w.Capped {
		t.Errorf("of the topic wait %+v", w)
	}
}

// status tells of what waits for a person; so it does under the rights of an operator.
func TestLookAtParkedAndPauses(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		conn := b.operatorConn(t)
		look := func() *postgres.Status {
			s, err := postgres.Look(t.Context(), conn, b.names)
			must(t, err)
			return s
		}
		if s := look(); s.Parked == nil || *s.Parked != (postgres.ParkedCount{}) || len(s.Pauses) != 0 ||
			len(s.Problems) != 0 {
			t.Errorf("an empty outbox shows %+v", s)
		}
		b.write(t, "t", "k")
		b.write(t, "t", "k")
		b.park(t, "key", "true")
		exec(t, b.admin, "update posthaste.parked set request = 'retry' where id = 1")
		_, err := openOperator(t, conn, b.names).Pause(t.Context(), topicT, alice)
		must(t, err)
		s := look()
		if *s.Parked != (postgres.ParkedCount{Count: 2, Requested: 1}) || len(s.Pauses) != 1 ||
			s.Pauses[0].Scope != topicT {
			t.Errorf("parked %+v, pauses %+v", s.Parked, s.Pauses)
		}
		exec(t, b.admin, "drop table posthaste.parked")
		if s := look(); s.Parked != nil || len(s.Problems) != 1 {
			t.Errorf("without its table: %+v, problems %v", s.Parked, s.Problems)
		}
	})
}
