package main

import (
	"context"
	"fmt"
)

// relaysScenarios are several relays of a subject on one outbox: are they as fast as one, and is a key's order kept?
func (o options) relaysScenarios() []Scenario {
	return []Scenario{{
		name: "relays", about: "a backlog, 1,000 keys, by one, two and four relays on this machine",
		usual: []string{"handwritten-1000", "posthaste", "posthaste-skip-locked"},
		fits:  func(t traits) bool { return t.ships && t.settles },
		run: func(ctx context.Context, g *grounds, s Subject) (figures []Figure, err error) {
			reordered := 0
			for _, n := range []int{1, 2, 4} {
				d, err := g.sized(ctx, usual(0), s, n)
				if err != nil {
					return nil, fmt.Errorf("%d relays: %w", n, err)
				}
				reordered += d.verdict.reordered
				figures = append(figures, Figure{Name: fmt.Sprintf("by %d", n), Unit: "events/s", Value: d.rate})
			}
			figures = append(figures, Figure{Name: "four", Unit: "of one", Value: figures[2].Value / figures[0].Value})
			return append(figures,
				Figure{Name: "reordered", Unit: "events", Value: float64(reordered), Plain: true}), nil
		},
	}}
}
