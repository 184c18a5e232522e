package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func newHolds() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "holds",
		Short: "See everything that waits, why, and how it goes on",
		Long: `See everything that waits, why, and how it goes on.

` + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste holds list
  posthaste holds release --topic order-service.order.confirmed`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	settings.AddFlags(cmd.PersistentFlags(), settings.GroupDatabase)
	cmd.AddCommand(newHoldsList(), newHoldsRelease())
	return cmd
}

func newHoldsList() *cobra.Command {
	var (
		topic, key string
		f          postgres.HoldFilter
		json       bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what waits: pauses, topics, partitions, and what is parked",
		Long: `List what waits, and why.

  pause      an operator has paused it; posthaste resume ends that
  topic      relays find the topic missing or forbidden, and look again by themselves after at most 30 s
  partition  a partition does not answer, or can't be written; it goes on when it does
  parked     an event was refused, and by the policy of its topic its key, its aggregate or nothing waits behind it;
             posthaste parked retry or discard ends that

A terminal gets a table, a pipe the same columns between tabs and no head: why, what waits with it (all, topic,
partition, key, aggregate, or event for nothing), topic, key, how many unpublished events wait, how many are parked,
since when, the way out, reason. What waits is counted among the first 100,000 unpublished events: + says that
there may be more. Times of topics and partitions are by the relay's own clock.

With --json each is one line with one object: hold, scope, topic, partition, partition_key, aggregate_type,
aggregate_id, events (null where they can't be counted), events_capped, parked, requested, first_parked_id, since,
reason, way_out, pause, paused_by, relays [name], tries, next_try. What does not apply is null. Fields may be added;
none will change.`,
		Example: `  posthaste holds list
  posthaste holds list --topic 'order-service.*' --key o-77
  posthaste holds list --json | jq -r 'select(.hold == "topic") | .topic'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return usageError{fmt.Errorf("--limit %d: want a number above 0", f.Limit)}
			}
			f.Topic, f.Key = relay.Pattern(topic), given(cmd, "key", key)
			if cmd.Flags().Changed("topic") {
				if err := f.Topic.Check(); err != nil {
					return usageError{err}
				}
			}
			return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
				holds, more, err := op.Holds(ctx, f)
				if err != nil {
					return err
				}
				list := newList(cmd, json, "nothing is held", holdColumns...)
				for _, h := range holds {
					if err == nil {
						err = list.add(holdCells(list.screen, h), func() any { return holdJSON(h) })
					}
				}
				if err := list.end(err); err != nil {
					return err
				}
				if more > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "note: %s more wait with parked events; narrow it by --topic and "+
						"--key, or raise --limit\n", number(more))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "of this topic only, or those that a pattern such as 'orders.*' picks")
	cmd.Flags().StringVar(&key, "key", "", "with this partition key only")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "at most so many of those that wait with parked events")
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a hold")
	return cmd
}
