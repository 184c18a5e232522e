package main

import (
	"context"
	"fmt"
	"time"

	"posthaste.dev/posthaste/bench/internal/tally"
)

// idleScenarios are a relay that has nothing to do, over a table full of what was shipped long ago: what does it cost?
func (o options) idleScenarios() []Scenario {
	return []Scenario{{
		name: "idle",
		about: fmt.Sprintf("nothing to do for %s, %s published rows in the table", o.size.Idle,
			digits(float64(o.size.Published))),
		rounds: 3, usual: []string{"handwritten-50", "posthaste", "posthaste-wakeup"},
		fits: func(t traits) bool { return t.keepsUp() && t.process },
		run: func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
			l := usual(0)
			l.published = g.size.Published
			return g.inPlace(ctx, l, s, func(p place) ([]Figure, error) { return p.idle(ctx, s) })
		},
	}}
}

// idle watches the subject from the third second after its last event: then it has come to rest.
func (p place) idle(ctx context.Context, s Subject) ([]Figure, error) {
	count, err := tally.Start(p.dsn)
	if err != nil {
		return nil, err
	}
	defer count.Close()
	reach := p
	reach.dsn = count.DSN()
	h, err := p.engage(ctx, reach, s, load{place: p, per: 1, eventful: true})
	if err != nil {
		return nil, err
	}
	defer h.close()
	if !pause(ctx, 3*time.Second) {
		return nil, ctx.Err()
	}
	before, err := p.idleCost(ctx, h.team, count)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-time.After(p.grounds.size.Idle):
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.team.ended():
		return nil, h.team.failure("watch the idle subject", nil)
	}
	after, err := p.idleCost(ctx, h.team, count)
	if err != nil {
		return nil, err
	}
	length := time.Since(began)
	if _, err := h.stop(ctx); err != nil {
		return nil, err
	}
	return after.since(before, length), nil
}

// idleCost is what an idle relay has cost so far.
type idleCost struct {
	relay, server time.Duration
	local         bool // the server's processes are to be seen here
	statements    int64
}

func (p place) idleCost(ctx context.Context, t team, count *tally.Proxy) (c idleCost, err error) {
	c.statements = count.Statements()
	if c.relay, err = ranFor(t[0].cmd.Process.Pid); err != nil {
		return c, nil // not on Linux
	}
	rows, err := p.db.Query(ctx,
		`select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
			and backend_type = 'client backend'`)
	if err != nil {
		return c, fmt.Errorf("find the relay's backends: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			return c, fmt.Errorf("find the relay's backends: %w", err)
		}
		if ran, err := ranFor(pid); err == nil && isServer(pid) {
			c.server, c.local = c.server+ran, true
		}
	}
	return c, rows.Err()
}

func (c idleCost) since(before idleCost, length time.Duration) []Figure {
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / length.Seconds() }
	relay, server := percent(c.relay-before.relay), percent(c.server-before.server)
	statements := Figure{Name: "statements", Unit: "a second",
		Value: float64(c.statements-before.statements) / length.Seconds()}
	if !c.local {
		return []Figure{statements}
	}
	return []Figure{
		{Name: "relay CPU", Unit: "% of a core", Value: relay},
		{Name: "its backends' CPU", Unit: "% of a core", Value: server},
		{Name: "together", Unit: "% of a core", Value: relay + server}, statements,
	}
}
