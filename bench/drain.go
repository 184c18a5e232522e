package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
)

// drainScenarios are a backlog that was there before the relay: how fast does it go?
//
// The clock runs from the moment at which the first event is seen as settled, and counts what was not settled then: the
// start of a process and the joining of a group are not throughput.
func (o options) drainScenarios() []Scenario {
	drain := func(keys int) func(context.Context, *grounds, Subject) ([]Figure, error) {
		return func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
			l := usual(0)
			l.keys = keys
			d, err := g.sized(ctx, l, s, 1)
			return d.figures(), err
		}
	}
	anything := func(t traits) bool { return t.process }
	return []Scenario{{
		name: "drain", about: "a backlog, 1,000 keys",
		usual: []string{"handwritten-50", "handwritten-1000", "posthaste", "posthaste-delete", "posthaste-sync",
			"posthaste-strict", "posthaste-skip-locked", "mark-bound", "ceiling"},
		fits: anything, run: drain(1000),
	}, {
		name: "drain-100k-keys", about: "a backlog, 100,000 keys",
		usual: []string{"handwritten-50", "handwritten-1000", "posthaste", "posthaste-delete", "mark-bound", "ceiling"},
		fits:  anything, run: drain(100_000),
	}, {
		name: "many-topics", about: fmt.Sprintf("a backlog, 1,000 keys in %d topics", o.size.Topics), rounds: 3,
		usual: []string{"handwritten-50", "handwritten-1000", "posthaste", "ceiling"},
		fits:  func(t traits) bool { return t.process && t.ships },
		run: func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
			l := usual(0)
			l.topics = g.size.Topics
			d, err := g.sized(ctx, l, s, 1)
			return d.figures(), err
		},
	}}
}

// sized drains a large backlog, or a small one if the subject is slow, which the first small one tells for all rounds.
func (g *grounds) sized(ctx context.Context, l layout, s Subject, relays int) (drained, error) {
	who := sizedAs(s, l, relays)
	g.mu.Lock()
	slow, known := g.slow[who]
	g.mu.Unlock()
	if slow || !known {
		l.events = g.size.Small
		d, err := g.drain(ctx, l, s, relays)
		if err != nil || slow {
			return d, err
		}
		slow = d.rate < g.fast || g.size.Small == g.size.Large
		g.mu.Lock()
		g.slow[who] = slow
		g.mu.Unlock()
		if slow {
			return d, nil
		}
	}
	l.events = g.size.Large
	return g.drain(ctx, l, s, relays)
}

func sizedAs(s Subject, l layout, relays int) string { return fmt.Sprint(s.Name(), l, relays) }

// drain drains a backlog in a place of its own.
func (g *grounds) drain(ctx context.Context, l layout, s Subject, relays int) (d drained, err error) {
	p, err := g.place(ctx, l, s)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	return p.drain(ctx, p, s, l.events, relays)
}

// drained is what came of a drain.
type drained struct {
	events  int
	rate    float64 // events/s
	used    used
	server  []Figure
	verdict verdict
}

func (d drained) figures() []Figure {
	n := float64(d.events)
	figures := []Figure{
		{Name: "drain", Unit: "events/s", Value: d.rate},
		{Name: "relay CPU", Unit: "us/event", Value: float64(d.used.cpu.Microseconds()) / n},
	}
	if d.used.memory > 0 {
		figures = append(figures,
			Figure{Name: "relay memory", Unit: "MiB", Value: float64(d.used.memory) / (1 << 20), Plain: true})
	}
	figures = append(figures, d.server...)
	return append(figures, Figure{Name: "of", Unit: "events", Value: n, Plain: true})
}

// drain lets a subject empty the place, which holds so many events and was never shipped from. The subject reaches its
// servers as reach says.
func (p place) drain(ctx context.Context, reach place, s Subject, events, relays int) (d drained, err error) {
	d.events = events
	var first, last int64
	err = p.db.QueryRow(ctx, `select min(id), max(id) from outbox_event where topic = any($1)`, p.topics).
		Scan(&first, &last)
	if err != nil {
		return d, fmt.Errorf("find events: %w", err)
	}
	before, err := p.share(ctx)
	if err != nil {
		return d, err
	}
	began := time.Now()
	t, err := start(s, reach, relays)
	if err != nil {
		return d, err
	}
	defer t.kill()
	var open int
	var took time.Duration
	if s.Traits().settles {
		open, took, err = p.settlement(ctx, t, first, last)
	} else {
		open, took, err = p.shipment(ctx, t, events)
	}
	if err != nil {
		return d, err
	}
	if open == 0 { // so few were there that they had gone by then: it was this fast at least
		open, took = events, time.Since(began)
	}
	d.rate = float64(open) / took.Seconds()
	after, err := p.share(ctx)
	if err != nil {
		return d, err
	}
	d.server = after.since(before, events)
	if d.used, err = t.stop(); err != nil || !s.Traits().ships {
		return d, err
	}
	d.verdict, err = p.verify(ctx)
	if !s.Traits().order && relays > 1 {
		err = d.verdict.forgiving()
	}
	return d, err
}

// settlement times the settling from the first event to the last, and tells how many were open at the first.
func (p place) settlement(ctx context.Context, t team, first, last int64) (open int, took time.Duration, err error) {
	if err := p.settled(ctx, t, first); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if open, err = p.unpublished(ctx, first); err != nil {
		return 0, 0, err
	}
	if err := p.settled(ctx, t, last); err != nil {
		return 0, 0, err
	}
	// Lanes or a failure can leave earlier events behind the last one.
	err = t.until(ctx, "wait for events", func() (bool, error) {
		left, err := p.unpublished(ctx, first)
		return left == 0, err
	})
	return open, time.Since(began), err
}

// settled waits until an event is settled. It looks by primary key, which costs the subject next to nothing.
func (p place) settled(ctx context.Context, t team, id int64) error {
	return t.until(ctx, "wait for events", func() (settled bool, err error) {
		err = p.db.QueryRow(ctx, `select published_at is not null from outbox_event where id = $1`, id).Scan(&settled)
		if errors.Is(err, pgx.ErrNoRows) {
			return true, nil // by deletion
		}
		return settled, err
	})
}

// shipment is settlement for a subject that settles nothing: Kafka tells how many have come.
func (p place) shipment(ctx context.Context, t team, events int) (open int, took time.Duration, err error) {
	err = onKafka(p.brokers, func(admin *kadm.Client) error {
		came := 0
		reach := func(want int) error {
			return t.until(ctx, "wait for events", func() (bool, error) {
				ends, err := admin.ListEndOffsets(ctx, p.topics...)
				came = 0
				ends.Each(func(o kadm.ListedOffset) { came += int(o.Offset) })
				return came >= want, err
			})
		}
		if err := reach(1); err != nil {
			return err
		}
		open = events - came
		began := time.Now()
		err := reach(events)
		took = time.Since(began)
		return err
	})
	return open, took, err
}

// until waits for a condition while the processes run.
func (t team) until(ctx context.Context, what string, condition func() (bool, error)) error {
	const patience = 10 * time.Minute // beside an open transaction the hand-written relay takes minutes
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		done, err := condition()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-t.ended():
			return t.failure(what, nil)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * time.Millisecond):
		}
	}
	return t.failure(fmt.Sprintf("%s: not done after %s", what, patience), nil)
}
