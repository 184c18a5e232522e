package relay

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Readiness says whether progress is possible, and why not.
func TestReadiness(t *testing.T) {
	now := time.Now()
	long := now.Add(-2 * silence)
	for name, c := range map[string]struct {
		change func(l *ledger, m *member)
		reason string // "" for ready
	}{
		"all is well": {func(*ledger, *member) {}, ""},
		"nothing answered": {func(l *ledger, m *member) { l.database.at, m.viewedAt = time.Time{}, time.Time{} },
			"PostgreSQL has not answered yet"},
		"database away": {func(l *ledger, m *member) {
			l.database.at, m.viewedAt, l.database.err = long, long, errors.New("refused")
		}, "PostgreSQL does not answer: refused"},
		"only beats":         {func(l *ledger, _ *member) { l.database.at = long }, ""},
		"brokers never seen": {func(l *ledger, _ *member) { l.ping.at = time.Time{} }, "Kafka has not answered yet"},
		"brokers away":       {func(l *ledger, _ *member) { l.ping.at = long }, "Kafka has not answered since"},
		"no acks":            {func(l *ledger, _ *member) { l.flying = long }, "Kafka has acknowledged nothing since"},
		"acks on the way":    {func(l *ledger, _ *member) { l.flying = now }, ""},
		"sends fail": {func(l *ledger, _ *member) { l.acks.err, l.acks.failed = errors.New("forbidden"), now },
			"acknowledges nothing: forbidden"},
		"failed long ago": {func(l *ledger, _ *member) {
			l.acks.err, l.acks.failed = errors.New("forbidden"), long
		}, ""},
		"standby by right": {func(_ *ledger, m *member) {
			m.state.lanes = LaneSet{}
			m.view.Lanes = []Lane{{Owner: 7}}
		}, ""},
		"lanes still free": {func(_ *ledger, m *member) { m.state.lanes = LaneSet{} }, "no lanes yet"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(&fakeStore{}, nil, Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r.ledger.database.at, r.ledger.ping.at = now, now
			r.member.state = tenure{id: 1, lanes: NewLaneSet(2, 0, 1)}
			r.member.view, r.member.viewedAt = View{Lanes: make([]Lane, 2)}, now
			c.change(r.ledger, r.member)
			s := r.Stats()
			if s.Ready != (c.reason == "") || !strings.Contains(s.Reason, c.reason) {
				t.Errorf("ready %v, reason %q; want %q", s.Ready, s.Reason, c.reason)
			}
		})
	}
}
