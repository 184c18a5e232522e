package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/postgres"
)

var clusterGroups = []settings.Group{settings.GroupDatabase, settings.GroupKafka}

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the Kafka cluster that the outbox belongs to, or give it to another",
		Long: `Show the Kafka cluster that the outbox belongs to, and the one that answers.

The first relay of an outbox notes the id of the Kafka cluster that it meets. From then on relays refuse any other: a
relay with one system's database and another's brokers would mark events as published that their readers never get.

Exit status 3 when another cluster answers.`,
		Example: `  posthaste cluster
  posthaste cluster accept`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCluster(cmd, func(_ context.Context, op *postgres.Operator, found string) error {
				w := cmd.OutOrStdout()
				fmt.Fprintf(w, "outbox  %s\n", cmp.Or(op.Cluster(), "none yet; the first relay notes the one it meets"))
				fmt.Fprintf(w, "kafka   %s\n", cmp.Or(found, "tells no id"))
				return op.CheckCluster(found)
			})
		},
	}
	settings.AddFlags(cmd.PersistentFlags(), clusterGroups...)
	cmd.AddCommand(newClusterAccept())
	return cmd
}

func newClusterAccept() *cobra.Command {
	var act actFlags
	cmd := &cobra.Command{
		Use:   "accept [ID]",
		Short: "Give the outbox to another Kafka cluster",
		Long: `Give the outbox to another Kafka cluster: the one with this id, or the one that answers.

It refuses while relays of the outbox run, since they would go on in the old cluster; relays with the claim skip-locked
it can't see, so stop these as well. Unpublished events go to the new cluster. What was published before is not
published again.`,
		Example: `  posthaste cluster accept
  posthaste cluster accept 5L6g3nShT-eMCtK--X86sw --yes --reason 'moved to the new cluster'`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := act.by("")
			if err == nil {
				err = act.needsAnswer(cmd)
			}
			if err != nil {
				return err
			}
			accept := func(ctx context.Context, op *postgres.Operator, cluster string) error {
				return act.acceptCluster(ctx, cmd, op, cluster, by)
			}
			if len(args) == 0 {
				return withCluster(cmd, accept)
			}
			return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
				return accept(ctx, op, args[0])
			})
		},
	}
	act.addTo(cmd.Flags())
	act.addYes(cmd.Flags())
	return cmd
}

// accepted is what cluster accept --json prints.
type accepted struct {
	Cluster string `json:"cluster"`
	Before  string `json:"before"` // "" for none
	DryRun  bool   `json:"dry_run"`
}

func (a *actFlags) acceptCluster(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, cluster string,
	by postgres.By) (err error) {
	if cluster == "" {
		return usageError{errors.New("accept cluster: no id is given, and the cluster that answers tells none")}
	}
	done := accepted{Cluster: cluster, Before: op.Cluster(), DryRun: a.dryRun}
	if !a.dryRun && done.Before != cluster {
		question := fmt.Sprintf("Unpublished events will go to Kafka cluster %s. Go on?", term.Plain(cluster))
		if err := a.confirm(cmd, question); err != nil {
			return err
		}
		if done.Before, err = op.AcceptCluster(ctx, cluster, by); err != nil {
			return err
		}
	}
	switch before := cmp.Or(done.Before, "none"); {
	case a.json:
		return writeJSON(term.On(cmd.OutOrStdout()), done)
	case done.Before == cluster:
		a.say(cmd, "the outbox belongs to cluster %s, as before", term.Plain(cluster))
	case a.dryRun:
		a.say(cmd, "dry run: the outbox would belong to cluster %s, and belongs to %s", term.Plain(cluster),
			term.Plain(before))
	default:
		a.say(cmd, "the outbox belongs to cluster %s now, before to %s", term.Plain(cluster), term.Plain(before))
	}
	return nil
}

// withCluster does something with what both servers say.
func withCluster(cmd *cobra.Command, do func(ctx context.Context, op *postgres.Operator, found string) error) error {
	cfg, err := loadSettings(cmd, clusterGroups...)
	if err != nil {
		return err
	}
	found, err := clusterOf(cmd.Context(), cfg.Kafka)
	if err != nil {
		return err
	}
	return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error { return do(ctx, op, found) })
}

// clusterOf asks the brokers for the id of their cluster.
func clusterOf(ctx context.Context, k settings.Kafka) (string, error) {
	producer, err := kafka.NewProducer(reachedBy(k))
	if err != nil {
		return "", usageError{err}
	}
	defer producer.Close()
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return producer.Ping(bounded)
}
