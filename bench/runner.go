package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// runner measures all subjects in all scenarios, round by round.
type runner struct {
	*grounds
	subjects  []Subject
	scenarios []Scenario
	progress  io.Writer // where it says what it does
}

// newRunner chooses what is measured.
func newRunner(o options) (*runner, error) {
	subjects, err := choose("subject", o.subjects, o.allSubjects())
	if err != nil {
		return nil, err
	}
	scenarios, err := choose("scenario", o.scenarios, o.allScenarios())
	if err != nil {
		return nil, err
	}
	return &runner{grounds: newGrounds(o), subjects: subjects, scenarios: scenarios, progress: os.Stderr}, nil
}

// turn is one measurement of the run.
type turn struct {
	round    int
	scenario Scenario
	subject  Subject
}

func (t turn) what() string { return t.scenario.Name() + ": " + t.subject.Name() }

// turns are all measurements in their order. Another subject begins each round: what the machine does over time favours
// nobody.
func (r *runner) turns() []turn {
	var all []turn
	for round := range r.rounds {
		for _, scenario := range r.scenarios {
			if scenario.rounds > 0 && round >= scenario.rounds {
				continue
			}
			var fit []Subject
			for _, subject := range r.subjects {
				if scenario.takes(subject, r.options) {
					fit = append(fit, subject)
				}
			}
			for n := range fit {
				all = append(all, turn{round, scenario, fit[(n+round)%len(fit)]})
			}
		}
	}
	return all
}

// run measures. A subject that fails in a scenario is out of it; what it did before does not count, and the report says
// so. The error is of what stops a run: servers that do not answer, an interrupt.
func (r *runner) run(ctx context.Context) (*report, error) {
	var err error
	if r.scratch, err = os.MkdirTemp("", "posthaste-bench-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.scratch)
	defer func() {
		if err := r.close(ctx); err != nil {
			fmt.Fprintln(r.progress, "drop what places were copied from:", err)
		}
	}()
	report, err := r.describe(ctx)
	if err != nil {
		return nil, err
	}
	if report.Fsync != "on" {
		fmt.Fprintln(r.progress, "PostgreSQL runs with fsync off: commits are free, which favours relays that commit",
			"often; measure on a durable server (go run ./testbed up --durable)")
	}
	if err := r.prepare(ctx, report); err != nil {
		return nil, err
	}
	turns := r.turns()
	if len(turns) == 0 {
		return nil, errors.New("choose: none of the subjects fits any of the scenarios")
	}
	if err := r.warmUp(ctx); err != nil {
		return nil, err
	}
	if err := r.measureAll(ctx, turns, report); err != nil {
		return nil, err
	}
	return report, nil
}

// prepare builds what is measured and leaves out the subjects that can't be had here.
func (r *runner) prepare(ctx context.Context, report *report) error {
	var left []Subject
	for _, subject := range r.subjects {
		if ours, ok := subject.(posthaste); ok {
			missing, err := ours.missing(ctx, r.grounds)
			if err != nil {
				return err
			}
			if missing != "" {
				fmt.Fprintf(r.progress, "%s is left out: %s\n", ours.name, missing)
				continue
			}
		}
		left = append(left, subject)
	}
	r.subjects = left
	for _, subject := range left {
		report.Subjects = append(report.Subjects, subject.Name())
	}
	for _, scenario := range r.scenarios {
		report.Scenarios = append(report.Scenarios, described{scenario.name, scenario.about})
	}
	return nil
}

func (r *runner) measureAll(ctx context.Context, turns []turn, report *report) error {
	clock := newClock(turns)
	for n, turn := range turns {
		if report.hasFailed(turn.scenario.Name(), turn.subject.Name()) {
			clock.skip(n)
			continue
		}
		fmt.Fprintf(r.progress, "%d of %d, round %d, %s; %s ... ",
			n+1, len(turns), turn.round+1, clock.left(n), turn.what())
		began := time.Now()
		figures, err := turn.scenario.run(ctx, r.grounds, turn.subject)
		if ctx.Err() != nil {
			fmt.Fprintln(r.progress, "interrupted")
			return errors.Join(ctx.Err(), report.save(r.save))
		}
		clock.took(n, time.Since(began))
		if err != nil {
			fmt.Fprintln(r.progress, "failed:", err)
			report.fail(turn.scenario.Name(), turn.subject.Name(), turn.round, err)
		} else {
			fmt.Fprintf(r.progress, "%s (%.0f s)\n", short(figures), time.Since(began).Seconds())
			report.add(turn.scenario.Name(), turn.subject.Name(), figures)
		}
		report.Seconds = clock.elapsed().Seconds()
		if err := report.save(r.save); err != nil {
			return err
		}
	}
	return nil
}

func short(figures []Figure) string {
	var parts []string
	for _, f := range figures {
		parts = append(parts, fmt.Sprintf("%s %s %s", f.Name, digits(f.Value), f.Unit))
	}
	return strings.Join(parts, ", ")
}
