package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

func newLanes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "Show the lanes and their owners, or change their number",
		Long: `Show the lanes and their owners, or change their number.

Lanes are the shards of the key space that relays share.

More lanes than relays let the work be spread evenly; 64 are enough for a dozen relays.`,
		Example: `  posthaste lanes
  posthaste lanes set 128`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
				relays, err := postgres.ReadRelays(ctx, conn, names)
				if err != nil {
					return err
				}
				return printLanes(cmd.OutOrStdout(), relays)
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
		Example: `  posthaste lanes set 128`,
		Args:    usage(cobra.ExactArgs(1)),
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
				fmt.Fprintf(cmd.OutOrStdout(), "changing from %d to %d lanes; posthaste lanes tells when it is done\n",
					before, n)
				return nil
			})
		},
	})
	return cmd
}

// printLanes says who owns which lanes.
func printLanes(w io.Writer, groups []postgres.Relays) error {
	var b strings.Builder
	for _, r := range groups {
		describeLanes(&b, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func describeLanes(b *strings.Builder, r postgres.Relays) {
	fmt.Fprintf(b, "%d lanes%s\n", r.Lanes, ofGroup(r))
	if r.NextLanes != 0 {
		fmt.Fprintf(b, "changing to %d: relays take the new ones when all old ones are free\n", r.NextLanes)
	}
	for _, m := range r.Members {
		fmt.Fprintf(b, "%s: relay %d %s, %s\n", ranges(m.Lanes), m.ID, term.Plain(m.Name), m.State)
	}
	if len(r.Stray) > 0 {
		fmt.Fprintf(b, "%s: of a relay that is no member any more\n", ranges(r.Stray))
	}
	if len(r.Free) > 0 {
		fmt.Fprintf(b, "%s: free\n", ranges(r.Free))
	}
}

// ranges writes ascending numbers short: 0-3,7.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		part := strconv.Itoa(list[i])
		if last > i {
			part += "-" + strconv.Itoa(list[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ",")
}
