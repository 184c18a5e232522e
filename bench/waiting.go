package main

import (
	"context"
	"fmt"
	"time"
)

// waitingScenarios are a drain and a steady load while much else waits, in front of it: a topic that does not exist, a
// key behind an event that was refused, many such keys, many events that were set aside alone. How much of the normal
// rate is left, what becomes of the latency, and how soon is a relay at work that starts, or takes over, in that state?
func (o options) waitingScenarios() []Scenario {
	return []Scenario{{
		name: "waiting", about: fmt.Sprintf("a backlog, 1,000 events/s, and a take-over, behind %s events that wait",
			digits(float64(o.size.Waiting+o.size.Waiting/5+o.size.Waiting/100+o.size.Waiting/10))),
		rounds: 3, usual: []string{"posthaste"}, run: waiting,
		fits: func(t traits) bool { return t.lanes }, // only one subject knows how to set an event aside
	}}
}

const (
	waiters = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', key, 'order.confirmed.v1',
    jsonb_build_object('n', n, 'pad', repeat('x', 225)), $1, key
from (select n, $2 || (n % $3::int) as key from generate_series(1, $4::int) n) new_event
order by n`

	// firstOf parks the first event of each key of a topic; what comes behind it waits.
	firstOf = `
insert into posthaste.parked
    (outbox, id, event_id, topic, key, aggregate_type, aggregate_id, event_type, scope, class, reason, attempts)
select distinct on (partition_key) 1, id, event_id, topic, partition_key, aggregate_type, aggregate_id, event_type, $2,
    'refused', 'put there by the bench', 1
from outbox_event where topic = $1 order by partition_key, id`
)

// putWaiting puts into the place what waits.
func (p place) putWaiting(ctx context.Context) error {
	all := p.grounds.size.Waiting
	for _, w := range []struct {
		topic, keys string
		n, rows     int
		park        string
	}{
		{"missing", "m-", 1000, all, ""},
		{"behind", "one-", 1, all / 5, "key"},
		{"held", "held-", all / 100, all / 100, "key"},
		{"alone", "alone-", all / 10, all / 10, "event"},
	} {
		topic := p.topics[0] + "-" + w.topic
		if _, err := p.db.Exec(ctx, waiters, topic, w.keys, w.n, w.rows); err != nil {
			return fmt.Errorf("write what waits: %w", err)
		}
		if w.park == "" {
			continue
		}
		if _, err := p.db.Exec(ctx, firstOf, topic, w.park); err != nil {
			return fmt.Errorf("park what waits: %w", err)
		}
	}
	return nil
}

// waiting does all of it in a place as it is and then, with what waits, in another one.
func waiting(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
	free, err := g.inPlace(ctx, usual(0), s, func(p place) ([]Figure, error) { return p.behind(ctx, s, false) })
	if err != nil {
		return nil, err
	}
	beside, err := g.inPlace(ctx, usual(0), s, func(p place) ([]Figure, error) { return p.behind(ctx, s, true) })
	if err != nil {
		return nil, err
	}
	figures := []Figure{
		{Name: "drain kept", Unit: "of free", Value: beside[0].Value / free[0].Value},
		{Name: "p99", Unit: "of free", Value: beside[2].Value / free[2].Value},
	}
	for i := range free {
		free[i].Name, beside[i].Name = "free: "+free[i].Name, "behind: "+beside[i].Name
		figures = append(figures, free[i], beside[i])
	}
	return figures, nil
}

// behind drains a backlog and carries a steady load, behind what waits if the place is to be full of it.
func (p place) behind(ctx context.Context, s Subject, full bool) ([]Figure, error) {
	g := p.grounds
	if full {
		if err := p.putWaiting(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := p.preload(ctx, g.size.Small); err != nil {
		return nil, err
	}
	if _, err := p.db.Exec(ctx, "vacuum analyze"); err != nil {
		return nil, fmt.Errorf("write what waits: %w", err)
	}
	d, err := p.drain(ctx, p, s, g.size.Small, 1)
	if err != nil {
		return nil, err
	}
	load, err := p.steady(ctx, p, s, 1, 1000, p.grounds.size.Steady)
	if err != nil {
		return nil, err
	}
	started, tookOver, err := p.handOver(ctx, s)
	return []Figure{
		{Name: "drain", Unit: "events/s", Value: d.rate}, load[0], load[1],
		{Name: "start", Unit: "s", Value: started.Seconds()}, {Name: "take-over", Unit: "s", Value: tookOver.Seconds()},
	}, err
}

// handOver times a relay from its start, and another one from the kill of the first, to the first event that each
// settles.
func (p place) handOver(ctx context.Context, s Subject) (started, tookOver time.Duration, err error) {
	settles := func(t team) error {
		first, err := p.preload(ctx, 1)
		if err != nil {
			return err
		}
		var id int64
		err = p.db.QueryRow(ctx, `select id from outbox_event where event_id = $1`, p.ledger.eventID(first)).Scan(&id)
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		return p.settled(ctx, t, id)
	}
	began := time.Now()
	first, err := start(s, p, 1)
	if err != nil {
		return 0, 0, err
	}
	defer first.kill()
	if err := settles(first); err != nil {
		return 0, 0, err
	}
	started = time.Since(began)
	second, err := start(s, p, 1)
	if err != nil {
		return 0, 0, err
	}
	defer second.kill()
	owners := func(what, sql string, want int) error {
		return second.until(ctx, what, func() (bool, error) {
			var n int
			err := p.db.QueryRow(ctx, sql).Scan(&n)
			return n == want, err
		})
	}
	if err := owners("wait for the second relay", `select count(distinct owner) from posthaste.lane`, 2); err != nil {
		return 0, 0, err
	}
	began = time.Now()
	first.kill()
	err = owners("wait for the take-over",
		`select count(distinct owner) + count(*) filter (where owner is null) from posthaste.lane`, 1)
	if err != nil {
		return 0, 0, err
	}
	if err := settles(second); err != nil {
		return 0, 0, err
	}
	tookOver = time.Since(began)
	_, err = second.stop()
	return started, tookOver, err
}
