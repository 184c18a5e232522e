package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"posthaste.dev/posthaste/bench/internal/delay"
)

// slowBrokerScenarios are three brokers, in-sync copies on two of them at least, at the end of a longer network: what
// becomes of rate and latency when each answer takes its time?
func (o options) slowBrokerScenarios() []Scenario {
	return []Scenario{{
		name:   "slow-broker",
		about:  "three brokers, round trips to them longer by 0, 5 and 50 ms: a backlog, and 1,000 events/s",
		rounds: 3, usual: []string{"handwritten-50", "handwritten-1000", "posthaste", "ceiling"},
		fits: func(t traits) bool { return t.ships && t.process },
		run: func(ctx context.Context, g *grounds, s Subject) (figures []Figure, err error) {
			if g.brokers3 == "" {
				return nil, errors.New("there are no three brokers: " +
					"run `go run ./testbed up --kafka 3` or use --kafka3")
			}
			for _, added := range g.size.Delays {
				one, err := g.slowBroker(ctx, s, added)
				if err != nil {
					return nil, fmt.Errorf("%s added: %w", added, err)
				}
				for _, f := range one {
					f.Name = fmt.Sprintf("+%d ms: %s", added.Milliseconds(), f.Name)
					figures = append(figures, f)
				}
			}
			return figures, nil
		},
	}}
}

// slowBroker drains a backlog and, where the subject can, goes on with a steady load.
func (g *grounds) slowBroker(ctx context.Context, s Subject, added time.Duration) ([]Figure, error) {
	l := usual(0)
	l.events, l.three = g.size.Small, true
	if handwritten, ok := s.(handwritten); ok && added > 0 {
		l.events = min(l.events, 200*handwritten.batch) // it waits for each batch: so many take long enough
	}
	return g.inPlace(ctx, l, s, func(p place) ([]Figure, error) { return p.far(ctx, s, l.events, added) })
}

func (p place) far(ctx context.Context, s Subject, events int, added time.Duration) ([]Figure, error) {
	far, err := delay.Start(p.brokers, added)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	reach := p
	reach.brokers = far.Addrs()
	d, err := p.drain(ctx, reach, s, events, 1)
	if err != nil {
		return nil, err
	}
	figures := []Figure{{Name: "drain", Unit: "events/s", Value: d.rate}}
	if !s.Traits().live {
		return figures, nil
	}
	load, err := p.steady(ctx, reach, s, 1, 1000, p.grounds.size.Steady)
	if err != nil {
		return nil, err
	}
	return append(figures, load[0], load[1]), nil
}
