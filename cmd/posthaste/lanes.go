package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/postgres"
)

func newLanes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "Show or change the number of lanes",
		Long: `Show or change the number of lanes, the shards of the key space that relays share.

More lanes than relays let the work be spread evenly; 64 are enough for a dozen relays.`,
		Example: `  posthaste lanes
  posthaste lanes set 128`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
				outbox, err := postgres.Inspect(ctx, conn, names, postgres.RightRead)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d lanes\n", outbox.Lanes)
				if outbox.NextLanes != 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "changing to %d: relays take the new ones when all old ones are free\n",
						outbox.NextLanes)
				}
				return nil
			})
		},
	}
	settings.AddFlags(cmd.PersistentFlags(), migrateGroups...)
	cmd.AddCommand(&cobra.Command{
		Use:   "set NUMBER",
		Short: "Ask for another number of lanes, a power of two up to 1024",
		Long: `Ask for another number of lanes, a power of two up to 1024.

Running relays finish what is in flight, free their lanes and take the new ones within a few seconds; nothing is lost,
repeated or reordered. Without relays the next one that starts makes the change.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return usageError{fmt.Errorf("set lanes: %q is not a number", args[0])}
			}
			if err := postgres.CheckLanes(n); err != nil {
				return usageError{err}
			}
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
				before, err := postgres.SetLanes(ctx, conn, names, n)
				if err != nil {
					return err
				}
				if n == before {
					fmt.Fprintf(cmd.OutOrStdout(), "%d lanes, as before\n", n)
					return nil
				}
				fmt.Fprintf(cmd.OutOrStdout(), "changing from %d to %d lanes; posthaste lanes tells when it is done\n", before, n)
				return nil
			})
		},
	})
	return cmd
}
