package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// writersScenarios are writers that write as fast as they can: what do the table, its trigger where the subject has
// one, and a relay at work take from them?
func (o options) writersScenarios() []Scenario {
	return []Scenario{{
		name:   "writers-cost",
		about:  "eight writers as fast as they can, with and without an event, with and without a relay",
		rounds: 3, usual: []string{"handwritten-50", "posthaste", "posthaste-wakeup"},
		fits: func(t traits) bool { return t.keepsUp() && t.process },
		run: func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
			var rates []float64
			for _, with := range []struct{ event, relay bool }{{false, false}, {true, false}, {true, true}} {
				rate, err := g.writersRate(ctx, s, with.event, with.relay)
				if err != nil {
					return nil, err
				}
				rates = append(rates, rate)
			}
			return []Figure{
				{Name: "no event", Unit: "commits/s", Value: rates[0]},
				{Name: "with one", Unit: "commits/s", Value: rates[1]},
				{Name: "and the relay", Unit: "commits/s", Value: rates[2]},
				{Name: "event", Unit: "of none", Value: rates[1] / rates[0], Plain: true},
				{Name: "relay", Unit: "of no relay", Value: rates[2] / rates[1], Plain: true},
			}, nil
		},
	}}
}

// writersRate is how many transactions a second commit, each with a row of the service's own.
func (g *grounds) writersRate(ctx context.Context, s Subject, event, relay bool) (rate float64, err error) {
	p, err := g.place(ctx, usual(0), s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	if _, err := p.db.Exec(ctx, ordersTable); err != nil {
		return 0, fmt.Errorf("make a table: %w", err)
	}
	l := load{place: p, per: 1, business: true, eventful: event}
	if !relay {
		return l.full(ctx)
	}
	h, err := p.engage(ctx, p, s, l)
	if err != nil {
		return 0, err
	}
	defer h.close()
	if rate, err = h.load.full(ctx); err != nil {
		return 0, err
	}
	if err := h.wait(ctx, p.ledger.next-1-h.come); err != nil {
		return 0, err
	}
	_, err = h.stop(ctx)
	return rate, err
}

// full has the writers write for a while, each its own keys one after the other, and returns commits a second. The
// first fifth of the time, from the first commit on, isn't measured.
func (l *load) full(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := stopwatch{length: l.grounds.size.Writing, over: make(chan struct{})}
	queues := make([]chan int, writers)
	var wg sync.WaitGroup
	for w := range writers {
		queues[w] = make(chan int, 256)
		wg.Go(func() {
			if err := l.writer(ctx, queues[w], c.count); err != nil {
				cancel(err)
			}
		})
	}
	for c.running() && ctx.Err() == nil {
		n := l.ledger.take(1)
		select {
		case queues[writerOf(l.ledger.key(n))] <- n:
		case <-ctx.Done():
		}
	}
	for _, queue := range queues {
		close(queue) // what is in it is still written, and not counted
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, fmt.Errorf("write events: %w", err)
	}
	return float64(c.commits.Load()) / c.length.Seconds(), nil
}

// stopwatch counts commits for a while.
type stopwatch struct {
	length  time.Duration
	commits atomic.Int64

	once       sync.Once
	from, till time.Time     // set by the first commit
	over       chan struct{} // closed at the end
}

func (c *stopwatch) count(_ int, at time.Time) {
	c.once.Do(func() {
		c.from = at.Add(c.length / 5)
		c.till = c.from.Add(c.length)
		time.AfterFunc(c.till.Sub(at), func() { close(c.over) })
	})
	if !at.Before(c.from) && at.Before(c.till) {
		c.commits.Add(1)
	}
}

func (c *stopwatch) running() bool {
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}
