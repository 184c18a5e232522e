package main

import "context"

// Scenario is one kind of work. To add one, write it in a file of its own and list it in allScenarios.
type Scenario interface {
	Name() string
	// Fits tells whether the subject can do the work.
	Fits(s Subject) bool
	// Run gives a prepared subject the work and returns what came of it. Lost, repeated, changed or reordered events
	// are an error.
	Run(ctx context.Context, p place, s Subject) ([]Figure, error)
}

// Figure is one measured number.
type Figure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

func (o options) allScenarios() []Scenario {
	return []Scenario{
		drain{events: o.events},
		&heldXmin{drain: drain{events: o.events}, options: o, runs: map[string]int{}},
		steady{rate: o.rate, length: o.steady},
		waiting{drain{events: o.events}, steady{rate: o.rate, length: o.steady}, o},
	}
}
