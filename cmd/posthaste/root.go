package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
)

// run is the whole command: it returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := onSignals(context.Background(), os.Exit)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !errors.Is(err, needsPerson{}) {
		printError(stderr, command.CommandPath(), err)
	}
	return exitStatus(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "posthaste",
		Short: "Ship events from an outbox table in PostgreSQL to Kafka, in order",
		Long: `Ship events from an outbox table in PostgreSQL to Kafka, in order.

Settings come from flags, the environment, the file .env in the working directory and the YAML file that --config or
POSTHASTE_CONFIG names, in this order. posthaste config shows them, and where each came from.

` + exitHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	settings.AddConfigFlag(root.PersistentFlags())
	root.AddCommand(newDemo(), newMigrate(), newRelay(), newStatus(), newEvents(), newParked(), newHolds(), newPause(),
		newResume(), newAudit(), newLanes(), newGroups(), newCluster(), newConfig(), newVersion())
	addCompletion(root)
	return root
}

// usage marks a complaint about arguments as one that --help answers.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if len(args) > 0 && cmd.HasSubCommands() {
			cmd.SuggestionsMinimumDistance = 2 // cobra's own, which it sets only where it finds the mistake itself
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w; %s is one", err, near[0])
			}
		}
		return usageError{err}
	}
}

// loadSettings reads the settings of the groups for a command whose flags settings.AddFlags has defined.
func loadSettings(cmd *cobra.Command, groups ...settings.Group) (*settings.Config, error) {
	return settings.Load(settings.Gather(cmd.Flags(), os.Environ()), groups...)
}
