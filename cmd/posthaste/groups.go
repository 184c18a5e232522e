package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func newGroups() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Show or change which topics have relays of their own",
		Long: `Show or change which topics have relays of their own.

A group is a set of topics, given by patterns, that relays started with its name ship, and no others. Relays without a
group ship every topic that no group has, so nothing is left out and nothing is shipped twice; a group without a
running relay waits.

Groups change only while no relay of the outbox runs: events wait meanwhile.`,
		Example: `  posthaste groups
  posthaste groups set critical --topics 'order-service.*,payment-service.*'
  posthaste relay --group critical
  posthaste groups remove critical`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return withDatabase(cmd, groupsLister(cmd)) },
	}
	settings.AddFlags(cmd.PersistentFlags(), migrateGroups...)
	cmd.AddCommand(newGroupsSet(), newGroupsRemove())
	return cmd
}

func groupsLister(cmd *cobra.Command) func(context.Context, *pgx.Conn, postgres.Names) error {
	return func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
		groups, err := postgres.Groups(ctx, conn, names)
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, g := range groups {
			name, topics := g.Name, make([]string, len(g.Topics))
			for i, p := range g.Topics {
				topics[i] = string(p)
			}
			list := strings.Join(topics, ",")
			if g.Name == "" {
				name, list = "-", "all topics that no group has"
			}
			fmt.Fprintf(&b, "%-20s %4d lanes %3d relays  %s\n", name, g.Lanes, g.Relays, list)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), b.String())
		return err
	}
}

func newGroupsSet() *cobra.Command {
	var topics []string
	var lanes int
	cmd := &cobra.Command{
		Use:   "set GROUP --topics PATTERNS",
		Short: "Make a group, or give one other topics",
		Long: `Make a group, or give one other topics.

In a pattern * stands for any run of characters, dots too. No topic may match patterns of two groups.`,
		Example: `  posthaste groups set critical --topics 'order-service.*,payment-service.*' --lanes 16`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			g := postgres.TopicGroup{Name: args[0], Lanes: lanes}
			for _, t := range topics {
				g.Topics = append(g.Topics, relay.Pattern(strings.TrimSpace(t)))
			}
			if err := g.Check(); err != nil {
				return usageError{err}
			}
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
				if err := postgres.SetGroup(ctx, conn, names, g); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(),
					"done; its relays start with --group %s or POSTHASTE_RELAY_GROUP=%[1]s\n", g.Name)
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&topics, "topics", nil, "patterns of the group's topics, separated by commas")
	cmd.Flags().IntVar(&lanes, "lanes", 0,
		fmt.Sprintf("lanes of a new group, a power of two up to 1024 (default %d)", postgres.DefaultLanes))
	return cmd
}

func newGroupsRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "remove GROUP",
		Short:   "Give the group's topics to the relays without a group",
		Long:    "Give the group's topics to the relays without a group.",
		Example: `  posthaste groups remove critical`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
				if err := postgres.RemoveGroup(ctx, conn, names, args[0]); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "done")
				return nil
			})
		},
	}
}
