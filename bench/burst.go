package main

import (
	"context"
	"time"
)

// burstScenarios are a relay that has nothing to do, and then a lot at once: one commit of many events, or of one.
func (o options) burstScenarios() []Scenario {
	return []Scenario{{
		name: "burst", about: digits(float64(o.size.Burst)) + " events in one commit, after idling",
		usual: []string{"handwritten-50", "handwritten-1000", "posthaste", "posthaste-wakeup", "floor"},
		fits:  traits.keepsUp,
		run:   func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) { return g.idling(ctx, s, g.burst) },
	}, {
		name: "lone", about: "an event alone, after idling for some two seconds",
		usual: []string{"handwritten-50", "posthaste", "posthaste-wakeup", "floor"},
		fits:  traits.keepsUp,
		run:   func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) { return g.idling(ctx, s, g.lone) },
	}}
}

// idle is how long a relay rests before something comes: beyond the second for which Posthaste goes on to look often,
// and not in step with its interval.
func idle(n int) time.Duration {
	return 1500*time.Millisecond + time.Duration(n)*377%1000*time.Millisecond
}

// idling has a subject at work in a place of its own.
func (g *grounds) idling(ctx context.Context, s Subject,
	do func(context.Context, *shift) ([]Figure, error)) ([]Figure, error) {
	return g.inPlace(ctx, usual(0), s, func(p place) ([]Figure, error) {
		h, err := p.engage(ctx, p, s, load{place: p, per: 1, rate: 1, eventful: true})
		if err != nil {
			return nil, err
		}
		defer h.close()
		figures, err := do(ctx, h)
		if err != nil {
			return nil, err
		}
		_, err = h.stop(ctx)
		return figures, err
	})
}

func (g *grounds) burst(ctx context.Context, h *shift) ([]Figure, error) {
	if !pause(ctx, idle(0)) {
		return nil, ctx.Err()
	}
	events := g.size.Burst
	first, err := h.load.preload(ctx, events)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	commits := make([]time.Time, events)
	for i := range commits {
		commits[i] = at
		h.load.send(ctx, first+i)
	}
	if err := h.wait(ctx, events); err != nil {
		return nil, err
	}
	figures := h.watch.latency(first, commits)
	return append(figures[:2], Figure{Name: "all", Unit: "ms", Value: figures[2].Value}), nil
}

func (g *grounds) lone(ctx context.Context, h *shift) ([]Figure, error) {
	start := h.load.ledger.next
	var all []time.Time
	for n := range g.size.Lone {
		if !pause(ctx, idle(n)) {
			return nil, ctx.Err()
		}
		_, commits, err := h.load.write(ctx, 1)
		if err != nil {
			return nil, err
		}
		all = append(all, commits...)
		if err := h.wait(ctx, 1); err != nil {
			return nil, err
		}
	}
	return h.watch.latency(start, all), nil
}
