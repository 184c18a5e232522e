package main

import (
	"fmt"
	"slices"
)

// bar is what Posthaste has to reach within one run: a ratio to another subject, or a distance, where machines differ.
type bar struct {
	scenario, subject, figure string

	to    string // the other subject, if any
	how   measure
	limit float64
	least bool // the limit is the least that will do; else the most
}

// measure is what a limit is of.
type measure int

const (
	itself measure = iota // the figure
	times                 // the figure, in those of the other subject
	above                 // how far the figure is above that of the other subject
)

// bars are all of them.
func bars() []bar {
	var all []bar
	for _, drain := range []string{"drain", "drain-100k-keys"} {
		all = append(all,
			bar{drain, "posthaste", "drain", "mark-bound", times, 0.75, true},
			bar{drain, "posthaste", "drain", "handwritten-50", times, 4.5, true},
			bar{drain, "posthaste", "drain", "handwritten-1000", times, 1.4, true},
			bar{drain, "posthaste-delete", "drain", "handwritten-1000", times, 2, true},
			bar{drain, "posthaste", "relay CPU", "ceiling", times, 2, false},
			bar{drain, "posthaste", "relay memory", "", itself, 64, false},
		)
	}
	all = append(all,
		bar{"steady-1k", "posthaste", "p50", "floor", above, 3, false},
		bar{"steady-1k", "posthaste", "p99", "floor", above, 10, false},
		bar{"steady-5k", "posthaste", "p99", "floor", above, 20, false},
		bar{"lone", "posthaste-wakeup", "p99", "floor", above, 10, false},
		bar{"lone", "posthaste", "p99", "floor", above, 510, false}, // its interval, and as much more
	)
	for _, subject := range []string{"posthaste", "posthaste-wakeup"} {
		all = append(all,
			bar{"idle", subject, "together", "", itself, 0.5, false},
			bar{"idle", subject, "statements", "", itself, 5, false},
		)
	}
	return append(all,
		bar{"relays", "posthaste", "four", "", itself, 1, true},
		bar{"relays", "posthaste", "reordered", "", itself, 0, false},
	)
}

// barNeeds tells whether some bar needs a subject in a scenario.
func barNeeds(scenario, subject string) bool {
	return slices.ContainsFunc(bars(), func(b bar) bool {
		return b.scenario == scenario && (b.subject == subject || b.to == subject)
	})
}

// found is a bar, and what a run found.
type found struct {
	what, wanted string
	value        float64
	holds        bool
}

// bars compares the bars that the report has figures for.
func (r *report) bars() []found {
	var all []found
	for _, b := range bars() {
		one, ok := r.find(b.scenario, b.subject, b.figure)
		other, known := r.find(b.scenario, b.to, b.figure)
		if !ok || b.how != itself && !known {
			continue
		}
		f := found{what: fmt.Sprintf("%s: %s of %s", b.scenario, b.figure, b.subject), value: one.Median}
		unit := one.Unit
		switch b.how {
		case times:
			f.what += ", to that of " + b.to
			f.value, unit = one.Median/other.Median, "times"
		case above:
			f.what += fmt.Sprintf(", above the %s %s of %s", digits(other.Median), unit, b.to)
			f.value -= other.Median
		}
		f.wanted, f.holds = fmt.Sprintf("at most %s %s", digits(b.limit), unit), f.value <= b.limit
		if b.least {
			f.wanted, f.holds = fmt.Sprintf("at least %s %s", digits(b.limit), unit), f.value >= b.limit
		}
		all = append(all, f)
	}
	return all
}

// barLines is a table of the bars.
func (r *report) barLines() [][]string {
	lines := [][]string{{"bar", "wanted", "found", ""}}
	for _, f := range r.bars() {
		verdict := "holds"
		if !f.holds {
			verdict = "MISSED"
		}
		lines = append(lines, []string{f.what, f.wanted, digits(f.value), verdict})
	}
	return lines
}
