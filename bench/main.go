// Command bench measures Posthaste beside what it is compared with, on the same servers, in the same run:
//
//	go run ./bench                    the test bed's servers (go run ./testbed up)
//	go run ./bench --database URL --kafka HOST:PORT
//
// The subjects take turns, in another order each round, and every figure is the median over the rounds. Servers, bench
// and relay share one machine, so compare figures within a run only; the ratio columns do that.
//
// Every measurement has a database and a topic of its own and ends with a check of what arrived: a fast relay that
// loses, repeats, changes or reorders events has no figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"posthaste.dev/posthaste/internal/testenv"
)

// options are the settings of a run.
type options struct {
	database  string
	brokers   string
	subjects  string
	scenarios string
	rounds    int
	events    int
	rate      int
	steady    time.Duration
	warm      time.Duration
	posthaste string
	json      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	// The relays that stand in this command run as processes of their own, like the one they are compared with.
	if len(args) > 0 && relays[args[0]] != nil {
		return runRelay(ctx, args[0], args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	subjects, err := choose("subject", o.subjects, o.allSubjects())
	if err != nil {
		return err
	}
	scenarios, err := choose("scenario", o.scenarios, o.allScenarios())
	if err != nil {
		return err
	}
	r := runner{options: o, subjects: subjects, scenarios: scenarios}
	report, err := r.run(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return report.writeJSON(os.Stdout)
	}
	return report.writeTable(os.Stdout)
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.database, "database", testenv.Get(testenv.DatabaseURL),
		"`URL` of PostgreSQL, of a role that may create databases")
	flags.StringVar(&o.brokers, "kafka", testenv.Get(testenv.KafkaBrokers),
		"Kafka brokers, `host:port` separated by commas")
	flags.StringVar(&o.subjects, "subjects", "",
		"`names` of the subjects to measure, all if empty; the first is what ratios refer to")
	flags.StringVar(&o.scenarios, "scenarios", "", "`names` of the scenarios, all if empty")
	flags.IntVar(&o.rounds, "rounds", 3, "`number` of times that everything is measured")
	flags.IntVar(&o.events, "events", 100_000, "`number` of events to drain")
	flags.IntVar(&o.rate, "rate", 500, "steady load in events a `second`")
	flags.DurationVar(&o.steady, "steady", 10*time.Second, "how `long` the steady load lasts")
	flags.DurationVar(&o.warm, "warm", 15*time.Second, "how `long` the brokers are warmed up first")
	flags.StringVar(&o.posthaste, "posthaste", "", "posthaste `binary` to measure; built from this tree if empty")
	flags.BoolVar(&o.json, "json", false, "write the report as JSON")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	var errs []error
	refuse := func(bad bool, why string) {
		if bad {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(flags.NArg() > 0, fmt.Sprintf("read arguments: %q is not understood", flags.Args()))
	refuse(o.database == "", "read --database: no test bed is up: run `go run ./testbed up` or name a server")
	refuse(o.brokers == "", "read --kafka: no test bed is up: run `go run ./testbed up` or name the brokers")
	refuse(o.rounds < 1, "read --rounds: want 1 or more")
	refuse(o.events < 10_000, "read --events: want 10000 or more; fewer are gone with the first chunks")
	refuse(o.rate < 1, "read --rate: want 1 or more")
	refuse(o.steady < time.Second, "read --steady: want 1s or more")
	return o, errors.Join(errs...)
}

// choose picks by name, in the order of the names.
func choose[T interface{ Name() string }](kind, names string, all []T) ([]T, error) {
	if names == "" {
		return all, nil
	}
	var chosen []T
	for name := range strings.SplitSeq(names, ",") {
		found := false
		var known []string
		for _, one := range all {
			known = append(known, one.Name())
			if one.Name() == strings.TrimSpace(name) {
				chosen, found = append(chosen, one), true
			}
		}
		if !found {
			return nil, fmt.Errorf("choose %s: there is no %q, only %s", kind, name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
