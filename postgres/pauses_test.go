package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

var (
	everyEvent = relay.Scope{Kind: relay.ScopeAll}
	topicT     = relay.Scope{Kind: relay.ScopeTopic, Topic: "t"}
	keyKOfT    = relay.Scope{Kind: relay.ScopeKey, Topic: "t", Key: "k"}
	keyK       = relay.Scope{Kind: relay.ScopeKeyOfAll, Key: "k"}
)

func TestPauseAndResume(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		op := b.operator(t)
		// From the narrowest to the widest each is new; then every one of them is there already.
		scopes := []relay.Scope{keyKOfT, keyK, topicT, everyEvent}
		for i, s := range scopes {
			p, err := op.Pause(t.Context(), s, alice)
			must(t, err)
			if p.ID != i+1 || p.Scope != s || p.Reason != "INC-1" || p.At.IsZero() ||
				!strings.HasPrefix(p.By, "alice@bastion, database user role_") {
				t.Errorf("pause %+v", p)
			}
		}
		for _, s := range append(scopes, relay.Scope{Kind: relay.ScopeTopic, Topic: "other"}) {
			_, err := op.Pause(t.Context(), s, alice)
			wantProblem(t, err, postgres.ErrPaused, "posthaste resume --id ")
			wantProblem(t, op.PlanPause(t.Context(), s), postgres.ErrPaused, "INC-1")
		}
		all, err := op.Pauses(t.Context())
		must(t, err)
		for i, p := range all {
			if p.Scope != scopes[i] {
				t.Errorf("pause %d is of %+v", p.ID, p.Scope)
			}
		}

		ended, err := op.Resume(t.Context(), postgres.PauseChoice{Scopes: []relay.Scope{everyEvent}}, alice)
		if must(t, err); len(ended) != 1 || ended[0].ID != 4 {
			t.Errorf("ended %+v", ended)
		}
		_, err = op.Resume(t.Context(), postgres.PauseChoice{IDs: []int{1, 4}}, alice)
		wantProblem(t, err, postgres.ErrNotPaused, "no pause 4")
		_, err = op.Resume(t.Context(),
			postgres.PauseChoice{Scopes: []relay.Scope{{Kind: relay.ScopeKey, Topic: "t", Key: "x"}}}, alice)
		wantProblem(t, err, postgres.ErrNotPaused, `it waits by the pause of topic "t": posthaste resume --id 3`)
		planned, err := op.PlanResume(t.Context(), postgres.PauseChoice{IDs: []int{2, 3}})
		if must(t, err); len(planned) != 2 {
			t.Errorf("planned %+v", planned)
		}
		if got := query(t, b.admin, "select count(*) from posthaste.pause"); got != "3" {
			t.Errorf("%s pauses are left", got)
		}
		_, err = op.Resume(t.Context(), postgres.PauseChoice{IDs: []int{2, 3}}, postgres.By{Actor: "bob"})
		must(t, err)
		var did []string
		for _, a := range acts(t, op) {
			did = append(did, a.Act+" "+string(a.Target))
		}
		want := `pause {"key": "k", "pause": 1, "topic": "t"}; pause {"key": "k", "pause": 2}; ` +
			`pause {"pause": 3, "topic": "t"}; pause {"all": true, "pause": 4}; ` +
			`resume {"all": true, "pause": 4}; resume {"key": "k", "pause": 2}; ` +
			`resume {"pause": 3, "topic": "t"}`
		if got := strings.Join(did, "; "); got != want {
			t.Errorf("audit %s", got)
		}
	})
}

func TestPauseRefuses(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	op := b.operator(t)
	for _, s := range []relay.Scope{
		{Kind: relay.ScopeTopic}, {Kind: relay.ScopeTopic, Topic: "orders.*"}, {Kind: relay.ScopeTopic, Topic: "a b"},
		{Kind: relay.ScopeKeyOfAll}, {Kind: relay.ScopeKey, Topic: "t"}, {Kind: relay.ScopeEvent, ID: 1},
	} {
		if _, err := op.Pause(t.Context(), s, alice); err == nil {
			t.Errorf("%+v is paused", s)
		}
	}
	if _, err := op.Pause(t.Context(), topicT, postgres.By{Actor: "alice"}); err == nil {
		t.Error("a pause without a reason is taken")
	}
	exec(t, b.admin, "insert into posthaste.pause (outbox, key, reason, paused_by) select 1, 'k' || n, 'r', 'bob' "+
		"from generate_series(1, 1000) n")
	_, err := op.Pause(t.Context(), topicT, alice)
	wantProblem(t, err, postgres.ErrPaused, "there are 1000 pauses")
	if got := query(t, b.admin, "select count(*) from posthaste.audit"); got != "0" {
		t.Errorf("%s acts are written down", got)
	}
}

// Of many who pause the same at once, one does.
func TestPausesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	const at = 8
	var operators [at]*postgres.Operator
	for i := range operators {
		operators[i] = b.operator(t)
	}
	var group sync.WaitGroup
	for _, op := range operators {
		group.Go(func() {
			if _, err := op.Pause(t.Context(), topicT, alice); err != nil && !errors.Is(err, postgres.ErrPaused) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := query(t, b.admin, "select (select count(*) from posthaste.pause) || ' ' || "+
		"(select count(*) from posthaste.audit)"); got != "1 1" {
		t.Errorf("pauses and acts: %s", got)
	}
}

func TestLookAgain(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		op := b.operator(t)
		exec(t, b.admin, "insert into posthaste.topic_look select 1, 'old', now() - interval '61 minutes'",
			"insert into posthaste.topic_look select 1, 'again', now() - interval '59 minutes'",
			"insert into posthaste.topic_look select 1, 'young', now() - interval '59 minutes'")
		must(t, op.LookAgain(t.Context(), "again", alice))
		if got := query(t, b.admin,
			"select string_agg(topic || (asked_at > now() - interval '1 minute'), ' ' order by topic) "+
				"from posthaste.topic_look"); got != "againtrue youngfalse" {
			t.Errorf("looks %s", got)
		}
		if err := op.LookAgain(t.Context(), "a*", alice); err == nil {
			t.Error("a pattern is taken for a topic")
		}
		if list := acts(t, op); len(list) != 1 || list[0].Act != "release" ||
			string(list[0].Target) != `{"topic": "again"}` {
			t.Errorf("audit %+v", list)
		}
	})
}
