package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/postgres"
)

// addCompletion tells shells the values of flags. Cobra's own command completion prints the scripts; without a word
// from here shells would offer the names of files.
func addCompletion(root *cobra.Command) {
	values := map[string]cobra.CompletionFunc{
		"state": cobra.FixedCompletions(eventStates, cobra.ShellCompDirectiveNoFileComp),
		"scope": cobra.FixedCompletions(postgres.ParkedScopes(), cobra.ShellCompDirectiveNoFileComp),
		"act":   cobra.FixedCompletions(postgres.AuditActs(), cobra.ShellCompDirectiveNoFileComp),
	}
	for _, s := range settings.All() {
		switch choices := s.Choices(); {
		case choices != nil:
			values[s.Flag] = cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)
		case strings.HasSuffix(s.Env, "_FILE"):
			values[s.Flag] = nil
		}
	}
	for _, cmd := range root.Commands() {
		completeFlags(cmd, values)
	}
}

func completeFlags(cmd *cobra.Command, values map[string]cobra.CompletionFunc) {
	for _, child := range cmd.Commands() {
		completeFlags(child, values)
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	define := func(flag *pflag.Flag) {
		complete, known := values[flag.Name]
		if !known {
			complete = cobra.NoFileCompletions
		}
		if complete != nil && flag.Value.Type() != "bool" {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, complete) // fails for a flag that is unknown or done, alone
		}
	}
	cmd.Flags().VisitAll(define)
	cmd.PersistentFlags().VisitAll(define)
}
