// Command bench measures Posthaste beside what it is compared with, on the same servers, in the same run:
//
//	go run ./bench                    all of it, on the test bed's servers (go run ./testbed up)
//	go run ./bench --bars             what Posthaste is held to, and nothing else
//	go run ./bench --quick            all of it, small: does everything work?
//	go run ./bench --from FILE        no measuring: tables and plots again, of what --save has saved
//
// The subjects take turns, in another order each round, and every figure is the median over the rounds. Servers, bench
// and relay share one machine, so compare figures within a run only; the ratio columns do that.
//
// Every measurement has a database and topics of its own and ends with a check of what arrived: a fast relay that
// loses, repeats, changes or reorders events has no figures. What fails says so, the others go on, and the exit status
// is 1 at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

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
	if o.from != "" {
		report, err := loadReport(o.from)
		if err != nil {
			return err
		}
		return o.tell(report)
	}
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	report, err := r.run(ctx)
	if err != nil {
		return err
	}
	return errors.Join(o.tell(report), report.failed())
}

// tell writes the report in every way that is asked for.
func (o options) tell(r *report) error {
	if o.write != "" {
		if err := r.writePage(o.write); err != nil {
			return err
		}
	}
	if o.json {
		return r.writeJSON(os.Stdout)
	}
	return r.writeTables(os.Stdout)
}
