package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// The exit statuses. Scripts and supervisors rely on them; the long help lists them.
const (
	exitOK          = 0   // done; for relay: stopped on a signal with nothing left in flight
	exitFailure     = 1   // failed, for a reason that the message gives
	exitUsage       = 2   // a wrong flag, argument or setting: running it again unchanged is of no use
	exitSchema      = 3   // the database is not as it must be, or refuses what is asked; or a person is needed
	exitDrain       = 4   // relay: the drain timeout passed, what was in flight may be sent again
	exitInterrupted = 130 // ended at once by a second signal
)

const exitHelp = `Exit status: 0 done; 1 failed; 2 wrong flag, argument or setting; 3 the database's schema is wrong
or refuses what is asked, or something needs a person; 4 the drain timeout passed and what was in flight may be sent
again; 130 ended at once by a second SIGINT or SIGTERM.`

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// hinted is an error with a way out.
type hinted struct {
	err  error
	hint string
}

func (e hinted) Error() string { return e.err.Error() }
func (e hinted) Unwrap() error { return e.err }

func exitStatus(err error) int {
	var (
		usage   usageError
		wrong   *settings.Error
		schema  *postgres.SchemaError
		problem postgres.Problem
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &wrong):
		return exitUsage
	case errors.As(err, &schema), errors.As(err, &problem), errors.Is(err, relay.ErrNoHorizon),
		errors.Is(err, needsPerson{}):
		return exitSchema
	case errors.Is(err, relay.ErrDrainTimeout):
		return exitDrain
	}
	return exitFailure
}

// printError writes "posthaste: verb noun: cause", and the ways out on lines of their own.
func printError(w io.Writer, command string, err error) {
	var (
		wrong   *settings.Error
		schema  *postgres.SchemaError
		problem postgres.Problem
		connect *postgres.ConnectError
		brokers *kafka.ConnectError
		hint    hinted
		usage   usageError
	)
	say := func(cause, way string) {
		fmt.Fprintf(w, "%s: %s\n", command, cause)
		if way != "" {
			fmt.Fprintf(w, "  %s\n", way)
		}
	}
	switch {
	case errors.As(err, &wrong):
		say(fmt.Sprintf("read settings: %s", plural(len(wrong.Problems), "wrong one")), "")
		for _, p := range wrong.Problems {
			fmt.Fprintf(w, "  %s\n", p)
		}
	case errors.As(err, &schema):
		for _, p := range schema.Problems {
			say(p.Cause, p.Fix)
		}
	case errors.As(err, &problem):
		say(problem.Cause, problem.Fix)
	case errors.As(err, &connect):
		say(connect.Sentence(), connect.Fix)
	case errors.As(err, &brokers):
		say(brokers.Sentence(), brokers.Fix)
	case errors.Is(err, relay.ErrDrainTimeout):
		say(relay.ErrDrainTimeout.Error(), "raise POSTHASTE_RELAY_DRAIN_TIMEOUT, or see why the servers do not answer")
	case errors.As(err, &hint):
		say(hint.Error(), hint.hint)
	case errors.As(err, &usage):
		say(usage.Error(), "see: "+command+" --help")
	case errors.Is(err, context.Canceled):
		say("interrupted", "")
	default:
		// Packages name the verb themselves, for whoever uses them as a library.
		_, verb, _ := strings.Cut(command, " ")
		say(strings.TrimPrefix(err.Error(), verb+": "), "")
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
