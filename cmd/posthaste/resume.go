package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func newResume() *cobra.Command {
	var a actFlags
	var s scopeFlags
	var ids []int
	cmd := &cobra.Command{
		Use:   "resume --id ID | --topic TOPIC | --key KEY | --all",
		Short: "End a pause; what waited goes out in order",
		Long: `End a pause: what waited goes out in order, within a second or two.

Give what was given to posthaste pause, or --id with its number, which posthaste holds list shows. --all ends the pause
of everything; pauses of topics and keys are others, and stay.

With --json each pause that ends is one line with one object: id, topic, partition_key, reason, paused_by, paused_at.

` + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste resume --topic order-service.order.confirmed
  posthaste resume --id 3 --id 4 --reason 'INC-123 is over'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			scope, given, err := s.scope(cmd)
			if err != nil {
				return err
			}
			if given == (len(ids) > 0) {
				return usageError{errors.New("say which pause: --id, or --topic, --key, both, or --all")}
			}
			choice := postgres.PauseChoice{IDs: ids}
			if given {
				choice.Scopes = []relay.Scope{scope}
			}
			by, err := a.by("")
			if err != nil {
				return err
			}
			return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
				return a.resume(ctx, cmd, op, choice, by)
			})
		},
	}
	settings.AddFlags(cmd.Flags(), settings.GroupDatabase)
	s.addTo(cmd.Flags())
	cmd.Flags().IntSliceVar(&ids, "id", nil, "the pause with this number; several times for several")
	a.addTo(cmd.Flags())
	return cmd
}

func (a *actFlags) resume(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, choice postgres.PauseChoice,
	by postgres.By) (err error) {
	var ended []postgres.Pause
	verb := "resumed"
	if a.dryRun {
		verb = "would resume"
		ended, err = op.PlanResume(ctx, choice)
	} else {
		ended, err = op.Resume(ctx, choice, by)
	}
	if err != nil {
		return err
	}
	screen := term.On(cmd.OutOrStdout())
	for _, p := range ended {
		if a.json {
			err = writeJSON(screen, pauseJSON(p))
		} else {
			_, err = fmt.Fprintf(screen, "%s %s, paused at %s by %s: %s\n", verb, postgres.ScopeText(p.Scope),
				p.At.UTC().Format(time.RFC3339), term.Plain(p.By), term.Plain(p.Reason))
		}
		if err != nil {
			return err
		}
	}
	return a.tellLeft(ctx, cmd, op, ended)
}

// tellLeft reminds of the pauses that there still are.
func (a *actFlags) tellLeft(ctx context.Context, cmd *cobra.Command, op *postgres.Operator,
	ended []postgres.Pause) error {
	all, err := op.Pauses(ctx)
	left := len(all)
	if a.dryRun {
		left -= len(ended)
	}
	if err == nil && left > 0 && !a.json {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; posthaste holds list shows what waits\n",
			atLeast(left, false, "pause is left", "pauses are left"))
	}
	return err
}
