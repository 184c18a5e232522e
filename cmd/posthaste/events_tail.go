package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

func newEventsTail() *cobra.Command {
	var (
		f    eventFilter
		q    postgres.EventFollow
		json bool
	)
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow new events as they are committed",
		Long: `Follow new events as they are committed, until Ctrl-C, which ends it with status 0.

An event comes when it can be seen: one that commits late comes after others with higher ids, and is not missed,
since every gap among the ids is looked at until no open transaction can fill it. Its state is that of the moment.

Not seen: an event that a relay in settle mode delete deletes within an interval; one of a transaction that was
open at the start and more than 1,000 events behind. With more than 2,000 gaps the lowest are given up, which is
told on standard error.`,
		Example: `  posthaste events tail
  posthaste events tail --key o-1 --last 0
  posthaste events tail --json | jq -r '[.topic, .payload] | @tsv'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, _, err := f.parse()
			if err != nil {
				return err
			}
			if q.Interval < 10*time.Millisecond {
				return usageError{fmt.Errorf("--interval %v: want at least 10ms", q.Interval)}
			}
			if q.Last < 0 || q.Last > 1000 {
				return usageError{fmt.Errorf("--last %d: want 0 to 1000", q.Last)}
			}
			q.EventFilter, q.Payload = filter, json
			q.Note = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "note:", text) }
			err = withEvents(cmd, func(ctx context.Context, events *postgres.Events) error {
				return events.Follow(ctx, q, tailWriter(term.On(cmd.OutOrStdout()), json))
			})
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	f.addTo(cmd.Flags())
	cmd.Flags().IntVarP(&q.Last, "last", "n", 10, "begin with at most so many of the newest events; up to 1000")
	cmd.Flags().DurationVar(&q.Interval, "interval", 500*time.Millisecond, "pause between two looks")
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object an event, with payload and headers")
	return cmd
}

// tailWriter writes each event at once: a stream can't be aligned, so a terminal gets columns of a usual width.
func tailWriter(screen term.Screen, json bool) func(postgres.StoredEvent) error {
	if json {
		return func(e postgres.StoredEvent) error { return writeEventJSON(screen, e) }
	}
	if !screen.Terminal {
		table := screen.NewTable()
		return func(e postgres.StoredEvent) error { return table.Row(eventCells(e)...) }
	}
	return func(e postgres.StoredEvent) error {
		created := screen.Dim(orNone(e.CreatedAt, time.DateTime))
		_, err := fmt.Fprintf(screen, "%s  %-8d  %-11s  %s  %s  %s\n", created, e.ID, eventState(e),
			term.Plain(e.Topic),
			screen.Bold(term.Plain(e.Key)), term.Plain(e.EventType))
		return err
	}
}
