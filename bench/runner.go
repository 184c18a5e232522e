package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// runner measures all subjects in all scenarios, round by round.
type runner struct {
	options
	subjects  []Subject
	scenarios []Scenario
	scratch   string
}

func (r runner) run(ctx context.Context) (report report, err error) {
	if r.scratch, err = os.MkdirTemp("", "posthaste-bench-"); err != nil {
		return report, err
	}
	defer os.RemoveAll(r.scratch)
	if err := r.describe(ctx, &report); err != nil {
		return report, err
	}
	if report.Fsync != "on" {
		fmt.Fprintln(os.Stderr, "PostgreSQL runs with fsync off: commits are free, which favours relays that commit",
			"often; measure on a durable server (go run ./testbed up --durable)")
	}
	if err := r.warmUp(ctx); err != nil {
		return report, err
	}
	for round := range r.rounds {
		for _, scenario := range r.scenarios {
			for n := range r.subjects {
				// Another one begins each round: what the machine does over time favours nobody.
				subject := r.subjects[(n+round)%len(r.subjects)]
				if !scenario.Fits(subject) {
					continue
				}
				fmt.Fprintf(os.Stderr, "round %d of %d: %s: %s ... ",
					round+1, r.rounds, scenario.Name(), subject.Name())
				figures, err := r.measure(ctx, scenario, subject)
				if err != nil {
					fmt.Fprintln(os.Stderr, "failed")
					return report, fmt.Errorf("%s: %s: %w", scenario.Name(), subject.Name(), err)
				}
				fmt.Fprintln(os.Stderr, short(figures))
				report.add(scenario.Name(), subject.Name(), figures)
			}
		}
	}
	report.order(r.subjects)
	return report, nil
}

func (r runner) measure(ctx context.Context, scenario Scenario, subject Subject) (figures []Figure, err error) {
	p, err := newPlace(ctx, r.options, r.scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx, r.options)) }()
	if err := subject.Prepare(ctx, p); err != nil {
		return nil, err
	}
	return scenario.Run(ctx, p, subject)
}

func short(figures []Figure) string {
	var parts []string
	for _, f := range figures {
		parts = append(parts, fmt.Sprintf("%s %s %s", f.Name, number(f.Value), f.Unit))
	}
	return strings.Join(parts, ", ")
}

// warmUp produces and consumes until the brokers' code is compiled: a cold broker answers ten times later than one that
// has run for half a minute.
func (r runner) warmUp(ctx context.Context) error {
	if r.warm == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "warm up the brokers for %s\n", r.warm)
	p, err := newPlace(ctx, r.options, r.scratch)
	if err != nil {
		return err
	}
	defer func() { _ = p.close(ctx, r.options) }()
	w, err := p.watch(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	value := []byte(strings.Repeat("x", 300))
	for until := time.Now().Add(r.warm); time.Now().Before(until); {
		records := make([]*kgo.Record, 50)
		for i := range records {
			records[i] = &kgo.Record{Topic: p.topic, Key: fmt.Append(nil, i), Value: value}
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("warm up the brokers: %w", err)
		}
	}
	return nil
}

// number prints three digits that say something.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// median of the values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
