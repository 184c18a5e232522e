package main

import (
	"context"
	"slices"
	"time"
)

// steadyScenarios are a relay that keeps up: how long after its commit is an event in a consumer's hands?
//
// Latency runs from the return of the writer's commit to the return of the consumer's poll.
func (o options) steadyScenarios() []Scenario {
	steady := func(per, rate int) func(context.Context, *grounds, Subject) ([]Figure, error) {
		return func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
			l := usual(0)
			l.run = max(l.run, per)
			return g.inPlace(ctx, l, s, func(p place) ([]Figure, error) {
				return p.steady(ctx, p, s, per, rate, g.size.Steady)
			})
		}
	}
	usual := []string{"handwritten-50", "handwritten-1000", "posthaste", "posthaste-wakeup", "floor"}
	return []Scenario{{
		name: "steady-1k", about: "1,000 events/s, each in a transaction of its own",
		usual: append(slices.Clone(usual), "posthaste-delete", "posthaste-sync", "posthaste-strict",
			"posthaste-skip-locked"),
		fits: traits.keepsUp, run: steady(1, 1000),
	}, {
		name: "steady-5k", about: "5,000 events/s in transactions of 10", usual: usual,
		fits: traits.keepsUp, run: steady(10, 5000),
	}, {
		name: "steady-10k", about: "10,000 events/s in transactions of 10", usual: usual,
		fits: traits.keepsUp, run: steady(10, 10_000),
	}}
}

// steady puts a load on the place, whose subject reaches its servers as reach says.
func (p place) steady(ctx context.Context, reach place, s Subject, per, rate int, length time.Duration) (
	[]Figure, error,
) {
	settleIn := min(length/4, 2*time.Second) // comes first and isn't measured
	h, err := p.engage(ctx, reach, s, load{place: p, per: per, rate: rate, eventful: true})
	if err != nil {
		return nil, err
	}
	defer h.close()
	before, err := p.share(ctx)
	if err != nil {
		return nil, err
	}
	warm := int(settleIn.Seconds()*float64(rate)) / per * per
	total := warm + int(length.Seconds()*float64(rate))/per*per
	first, commits, err := h.load.write(ctx, total)
	if err != nil {
		return nil, err
	}
	if err := h.wait(ctx, total); err != nil {
		return nil, err
	}
	after, err := p.share(ctx)
	if err != nil {
		return nil, err
	}
	used, err := h.stop(ctx)
	if err != nil {
		return nil, err
	}
	figures := append(h.watch.latency(first+warm, commits[warm:]),
		Figure{Name: "load", Unit: "events/s", Plain: true,
			Value: float64(total-warm-1) / commits[total-1].Sub(commits[warm]).Seconds()})
	if len(h.team) > 0 {
		figures = append(figures, Figure{Name: "relay CPU", Unit: "us/event",
			Value: float64(used.cpu.Microseconds()) / float64(total)})
	}
	return append(figures, after.since(before, total)...), nil
}

// latency are the figures of events from a number on, by their commits.
func (w *watch) latency(first int, commits []time.Time) []Figure {
	var all []time.Duration
	for i, at := range commits {
		all = append(all, w.arrival(first+i).Sub(at))
	}
	slices.Sort(all)
	return []Figure{
		{Name: "p50", Unit: "ms", Value: milliseconds(percentile(all, 50))},
		{Name: "p99", Unit: "ms", Value: milliseconds(percentile(all, 99))},
		{Name: "max", Unit: "ms", Value: milliseconds(all[len(all)-1]), Plain: true},
	}
}

// percentile is the smallest value that so many percent of the values do not pass.
func percentile(sorted []time.Duration, p int) time.Duration { return sorted[(len(sorted)*p+99)/100-1] }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
