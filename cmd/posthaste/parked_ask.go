package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/postgres"
)

// asking is a request for parked events on its way from the command line.
type asking struct {
	actFlags
	act postgres.ParkedAct
}

const askHelp = `

Which events: ids, or filters, or --all, up to 100,000 at once. At a terminal the first of them are shown and a
question is asked; elsewhere --yes is needed. What is parked after that is not touched.

The relays that own the keys act within a second or two; the command waits for that for --wait, and says what became
of the events. Without a relay the request waits for one. A second request for an event replaces the first, as long
as no relay has acted on it.

With --json it prints one object: act, dry_run, asked, replaced (that had another request), not_parked [the ids given
that are not parked], more (than 100,000 are parked), relays_missing [the groups without a living relay, "" for that
of all other topics], outcome (null without a wait): pending, replaced, parked_again, released, sent, gone.

Exit status: 0 asked; 1 an id that was given is not parked, though the others are asked for, or it was not confirmed;
3 some are parked again, or a discard was refused; else as ever.`

func newParkedRetry() *cobra.Command {
	a := &asking{act: postgres.Retry}
	return a.command(&cobra.Command{
		Use:   "retry [ID...]",
		Short: "Ask relays to send parked events again, in the order of their keys",
		Long: `Ask relays to send parked events again.

What waits with an event follows it in the order of the ids, up to the next parked event of its key: a key comes out
in order. An event that is refused again is parked again, and its key waits on.` + askHelp,
		Example: `  posthaste parked retry 4711 4712
  posthaste parked retry --topic order-service.order.confirmed --since 2h --reason 'max.message.bytes raised'
  posthaste parked retry --all --dry-run`,
	})
}

func newParkedDiscard() *cobra.Command {
	a := &asking{act: postgres.Discard}
	return a.command(&cobra.Command{
		Use:   "discard [ID...] --reason WHY",
		Short: "Ask relays to take parked events out for good; they are never published",
		Long: `Ask relays to take parked events out for good.

A relay deletes the event from the outbox table, and what waited behind it flows on without it, up to the next parked
event of its key: consumers never get it. The whole event is kept in the audit table, with the reason: posthaste
audit --act discarded --json.` + askHelp,
		Example: `  posthaste parked discard 4711 --reason 'a test order, see INC-123'
  posthaste parked discard --key o-77 --topic order-service.order.confirmed --reason 'sent by hand' --yes`,
	})
}

// command adds what both acts share.
func (a *asking) command(cmd *cobra.Command) *cobra.Command {
	var f parkedFilter
	var all bool
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, times, err := f.parse(cmd)
		if err != nil {
			return err
		}
		if filter.Events, err = parseRefs(args); err != nil {
			return err
		}
		narrow := !filter.Everything() || f.since != "" || f.until != ""
		switch {
		case !narrow && !all:
			return usageError{errors.New("say which parked events: ids, filters such as --topic, or --all")}
		case narrow && all:
			return usageError{errors.New("--all means every parked event: leave it out, or the ids and filters")}
		}
		return a.start(cmd, func(ctx context.Context, op *postgres.Operator) (postgres.ParkedFilter, error) {
			now, err := op.Now(ctx)
			if err == nil {
				filter.Since, filter.Until, err = between(times, now)
			}
			return filter, err
		})
	}
	f.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "every parked event")
	a.addTo(cmd.Flags())
	return cmd
}

func (a *asking) addTo(flags *pflag.FlagSet) {
	a.actFlags.addTo(flags)
	a.addYes(flags)
	a.addWait(flags, "to see what becomes of it")
}

// start refuses what needs no database to be refused, and asks.
func (a *asking) start(cmd *cobra.Command,
	filter func(context.Context, *postgres.Operator) (postgres.ParkedFilter, error)) error {
	reasonFor := ""
	if a.act == postgres.Discard {
		reasonFor = "a discard"
	}
	by, err := a.by(reasonFor)
	if err == nil {
		err = a.needsAnswer(cmd)
	}
	if err != nil {
		return err
	}
	return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
		f, err := filter(ctx, op)
		if err != nil {
			return err
		}
		return a.ask(ctx, cmd, op, f, by)
	})
}
