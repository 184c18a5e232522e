package main

import (
	"context"
	"slices"
)

// Scenario is one kind of work. To add one, write it in a file of its own and list it in allScenarios.
type Scenario struct {
	name   string
	about  string            // the work, in a few words
	usual  []string          // the subjects that are measured if nobody names others
	rounds int               // at most so many, where no bar needs more; 0 for all that are asked for
	fits   func(traits) bool // whether a subject can do the work

	// run gives a subject the work and returns what came of it. Lost, repeated, changed or reordered events are an
	// error.
	run func(ctx context.Context, g *grounds, s Subject) ([]Figure, error)
}

// Name is what --scenarios knows it by.
func (s Scenario) Name() string { return s.name }

// takes tells whether a subject is to be measured: any that fits if it was named, else one of the usual, or what bars
// need.
func (s Scenario) takes(subject Subject, o options) bool {
	switch {
	case !s.fits(subject.Traits()):
		return false
	case o.subjects != "":
		return true
	case o.bars:
		return barNeeds(s.name, subject.Name())
	}
	return slices.Contains(s.usual, subject.Name())
}

// Figure is one measured number.
type Figure struct {
	Name  string
	Unit  string
	Value float64
	Plain bool // is told without a ratio: a condition of the others, or of less interest
}

func (o options) allScenarios() []Scenario {
	return slices.Concat(
		o.drainScenarios(),
		o.steadyScenarios(),
		o.burstScenarios(),
		o.idleScenarios(),
		o.relaysScenarios(),
		o.slowBrokerScenarios(),
		o.heldXminScenarios(),
		o.writersScenarios(),
		o.waitingScenarios(),
		o.growthScenarios(),
	)
}
