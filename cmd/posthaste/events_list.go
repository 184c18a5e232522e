package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

func newEventsList() *cobra.Command {
	var (
		f    eventFilter
		q    postgres.EventList
		json bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, the newest first",
		Long: `List events in the order of their ids, the newest first.

A terminal gets a table, a pipe the same columns between tabs and no head: id, created_at, state, topic, key,
type, event id.

What it costs: an event id is looked up by its unique index; --state unpublished walks along the partial index,
everything else along the primary key. The other filters have no index: rows are walked over until enough match,
at most --max-look of them, and standard error says so when that ended the list. --since, newest first, and
--until, oldest first, end after 20,000 rows in a row that lie beyond: created_at rises with the id, but for what
writers put there themselves.`,
		Example: `  posthaste events list --state unpublished --oldest-first
  posthaste events list --topic order-service.order.confirmed --since 15m --limit 100
  posthaste events list --key o-1 --json | jq -r .payload`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, times, err := f.parse()
			if err != nil {
				return err
			}
			for flag, n := range map[string]int{"limit": q.Limit, "max-look": q.MaxLook} {
				if n < 1 {
					return usageError{fmt.Errorf("--%s %d: want a number above 0", flag, n)}
				}
			}
			q.EventFilter, q.Payload = filter, json
			return withEvents(cmd, func(ctx context.Context, events *postgres.Events) error {
				now, err := events.Now(ctx)
				if err != nil {
					return err
				}
				if q.Since, q.Until, err = between(times, now); err != nil {
					return err
				}
				return f.list(ctx, cmd, events, q)
			})
		},
	}
	flags := cmd.Flags()
	f.addTo(flags)
	flags.StringVar(&f.eventID, "event-id", "", "with this event id only")
	flags.StringVar(&f.state, "state", string(postgres.EventsAll), "all, unpublished or published")
	flags.StringVar(&f.since, "since", "", "created since then: how long ago, such as 15m, or an RFC 3339 time")
	flags.StringVar(&f.until, "until", "", "created before then: how long ago, such as 15m, or an RFC 3339 time")
	flags.IntVar(&q.Limit, "limit", 20, "at most so many events")
	flags.IntVar(&q.MaxLook, "max-look", 1_000_000, "walk over at most so many rows")
	flags.BoolVar(&q.OldestFirst, "oldest-first", false, "begin with the lowest id")
	flags.Int64Var(&q.Above, "above", 0, "with ids above this only")
	flags.Int64Var(&q.Below, "below", 0, "with ids below this only")
	flags.BoolVar(&json, "json", false, "print one JSON object an event, with payload and headers")
	return cmd
}

func (f *eventFilter) list(ctx context.Context, cmd *cobra.Command, events *postgres.Events,
	q postgres.EventList) error {
	screen := term.On(cmd.OutOrStdout())
	var table *term.Table
	emit := func(e postgres.StoredEvent) error {
		if q.Payload {
			return writeEventJSON(screen, e)
		}
		if table == nil {
			table = screen.NewTable(eventColumns...)
		}
		return table.Row(eventCells(e)...)
	}
	looked, err := events.List(ctx, q, emit)
	switch {
	case table != nil:
		if err := table.Close(); err != nil {
			return err
		}
	case screen.Terminal && err == nil && !q.Payload:
		fmt.Fprintln(screen, "no events")
	}
	if err == nil && looked.Cut {
		bound := "below"
		if q.OldestFirst {
			bound = "above"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "note: no index serves %s; stopped after a look at %s rows; "+
			"to go on from there add --%s %d, to look at more raise --max-look\n",
			f.words(), number(looked.Rows), bound, looked.Last)
	}
	return err
}
