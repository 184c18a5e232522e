package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// drain is a backlog that was there before the relay: how fast does it go?
//
// The clock runs from the moment at which the first event is seen as settled, and counts what was not settled then: the
// start of a process and the joining of a group are not throughput.
type drain struct{ events int }

func (drain) Name() string        { return "drain" }
func (drain) Fits(s Subject) bool { return true }

// Eight events of a key come together, as they do where a business process writes them; 1,000 keys; about 300 bytes.
const preload = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', key, 'order.confirmed.v1',
    jsonb_build_object('order_id', key, 'n', n, 'total_amount', 1.10, 'pad', repeat('x', 225)), $1, key
from (select n, 'order-' || (n / 8 * 7919 % 1000) as key from generate_series(1, $2::int) n) new_event
order by n`

func (d drain) Run(ctx context.Context, p place, s Subject) ([]Figure, error) {
	rate, cpu, err := d.once(ctx, p, s)
	return []Figure{{"drain", "events/s", rate}, {"relay cpu", "us/event", cpu}}, err
}

// once drains a backlog in a place where nothing was before, and returns the rate and the processor time of an event in
// microseconds.
func (d drain) once(ctx context.Context, p place, s Subject) (rate, cpu float64, err error) {
	if _, err := p.db.Exec(ctx, preload, p.topic, d.events); err != nil {
		return 0, 0, fmt.Errorf("preload events: %w", err)
	}
	for _, tidy := range []string{"vacuum analyze outbox_event", "checkpoint"} {
		if _, err := p.db.Exec(ctx, tidy); err != nil {
			return 0, 0, fmt.Errorf("preload events: %w", err)
		}
	}
	var first, last int64
	if err := p.db.QueryRow(ctx, `select min(id), max(id) from outbox_event where topic = $1`,
		p.topic).Scan(&first, &last); err != nil {
		return 0, 0, fmt.Errorf("preload events: %w", err)
	}

	r, err := start(s, p)
	if err != nil {
		return 0, 0, err
	}
	defer r.kill()
	if err := p.settled(ctx, r, first); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	open, err := p.unpublished(ctx, first)
	if err != nil {
		return 0, 0, err
	}
	if err := p.settled(ctx, r, last); err != nil {
		return 0, 0, err
	}
	// Lanes or a failure can leave earlier events behind the last one.
	for left := 1; left > 0; {
		if left, err = p.unpublished(ctx, first); err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(began)
	used, err := r.stop()
	if err != nil {
		return 0, 0, err
	}
	if s.Ships() {
		if err := p.verify(ctx); err != nil {
			return 0, 0, err
		}
	}
	return float64(open) / took.Seconds(), float64(used.Microseconds()) / float64(d.events), nil
}

// settled waits until an event is settled. It looks by primary key, which costs the subject next to nothing.
func (p place) settled(ctx context.Context, r *running, id int64) error {
	const patience = 10 * time.Minute // beside an open transaction the hand-written relay takes minutes
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var settled bool
		err := p.db.QueryRow(ctx, `select published_at is not null from outbox_event where id = $1`, id).Scan(&settled)
		if errors.Is(err, pgx.ErrNoRows) {
			settled, err = true, nil // by deletion
		}
		if err != nil {
			return fmt.Errorf("wait for events: %w", err)
		}
		if settled {
			return nil
		}
		select {
		case err := <-r.done:
			r.done <- err
			return fmt.Errorf("wait for events: the subject has ended: %v; it logged last:\n%s", err, r.tail())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("wait for events: not settled after %s; the subject logged last:\n%s", patience, r.tail())
}
