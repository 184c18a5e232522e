package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waiting is a drain and a steady load while much else waits, in front of it: a topic that does not exist, a key behind
// an event that was refused, many such keys, many events that were set aside alone. How much of the normal rate is
// left, what becomes of the latency, and how soon is a relay at work that starts, or takes over, in that state?
type waiting struct {
	drain   drain
	steady  steady
	options options
}

func (waiting) Name() string { return "waiting" }

// Fits: only one subject knows how to set an event aside.
func (waiting) Fits(s Subject) bool {
	_, ours := s.(*posthaste)
	return ours
}

// What waits: rows of a missing topic, rows behind one held key, held keys with a row each, events parked alone.
const (
	missingRows  = 1_000_000
	behindOneKey = 200_000
	heldKeys     = 10_000
	parkedAlone  = 100_000
)

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

// fill puts into the place what waits.
func (waiting) fill(ctx context.Context, p place) error {
	for _, w := range []struct {
		topic, keys string
		n, rows     int
		park        string
	}{
		{"missing", "m-", 1000, missingRows, ""},
		{"behind", "one-", 1, behindOneKey, "key"},
		{"held", "held-", heldKeys, heldKeys, "key"},
		{"alone", "alone-", parkedAlone, parkedAlone, "event"},
	} {
		topic := p.topic + "-" + w.topic
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
	_, err := p.db.Exec(ctx, "vacuum analyze")
	return err
}

// Run does all of it in the place as it is and then, with what waits, in another one.
func (w waiting) Run(ctx context.Context, p place, s Subject) ([]Figure, error) {
	free, _, err := w.drain.once(ctx, p, s)
	if err != nil {
		return nil, err
	}
	freely, err := w.steady.Run(ctx, p, s)
	if err != nil {
		return nil, err
	}
	other, err := newPlace(ctx, w.options, p.scratch)
	if err != nil {
		return nil, err
	}
	beside, err := w.beside(ctx, other, s)
	err = errors.Join(err, other.close(ctx, w.options))
	if err != nil {
		return nil, err
	}
	return append([]Figure{
		{"free", "events/s", free}, {"drain kept", "of free", beside[0].Value / free},
		{"free p99", "ms", freely[1].Value}, {"p99", "of free", beside[2].Value / freely[1].Value},
	}, beside...), nil
}

func (w waiting) beside(ctx context.Context, p place, s Subject) ([]Figure, error) {
	if err := s.Prepare(ctx, p); err != nil {
		return nil, err
	}
	if err := w.fill(ctx, p); err != nil {
		return nil, err
	}
	rate, _, err := w.drain.once(ctx, p, s)
	if err != nil {
		return nil, err
	}
	load, err := w.steady.Run(ctx, p, s)
	if err != nil {
		return nil, err
	}
	started, tookOver, err := w.handOver(ctx, p, s)
	return []Figure{{"beside what waits", "events/s", rate}, {"p50 there", "ms", load[0].Value},
		{"p99 there", "ms", load[1].Value}, {"start there", "s", started.Seconds()},
		{"take-over there", "s", tookOver.Seconds()}}, err
}

// handOver times a relay from its start, and another one from the kill of the first, to the first event that each
// settles.
func (w waiting) handOver(ctx context.Context, p place, s Subject) (started, tookOver time.Duration, err error) {
	settles := func(r *running) error {
		var eventID string
		var id int64
		err := p.db.QueryRow(ctx, insert, fmt.Sprint("hand-over-", time.Now().UnixNano()), 0, p.topic).Scan(&eventID)
		if err == nil {
			err = p.db.QueryRow(ctx, `select id from outbox_event where event_id = $1`, eventID).Scan(&id)
		}
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		return p.settled(ctx, r, id)
	}
	began := time.Now()
	first, err := start(s, p)
	if err != nil {
		return 0, 0, err
	}
	defer first.kill()
	if err := settles(first); err != nil {
		return 0, 0, err
	}
	started = time.Since(began)
	second, err := start(s, p)
	if err != nil {
		return 0, 0, err
	}
	defer second.kill()
	for members := 0; members < 2; {
		err := p.db.QueryRow(ctx, `select count(distinct owner) from posthaste.lane`).Scan(&members)
		if err != nil {
			return 0, 0, fmt.Errorf("wait for the second relay: %w", err)
		}
	}
	began = time.Now()
	first.kill()
	for owners := 2; owners > 1; {
		err := p.db.QueryRow(ctx,
			`select count(distinct owner) + count(*) filter (where owner is null) from posthaste.lane`).Scan(&owners)
		if err != nil {
			return 0, 0, fmt.Errorf("wait for the take-over: %w", err)
		}
	}
	if err := settles(second); err != nil {
		return 0, 0, err
	}
	tookOver = time.Since(began)
	_, err = second.stop()
	return started, tookOver, err
}
