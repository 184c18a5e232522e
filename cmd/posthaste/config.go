package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
)

//go:generate sh -c "go run . config --markdown >../../docs/reference-settings.md"

func newConfig() *cobra.Command {
	var asJSON, example, markdown bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in effect and where each came from",
		Long: `Show the settings in effect and where each came from: a flag, the environment, .env, the YAML file with
the line, or the default. Secrets are not shown. No server is asked.

With --example it writes a YAML file of all settings with their defaults instead.

Exit status 2 when something is wrong; then all of it is named.`,
		Example: `  posthaste config
  posthaste config --config posthaste.yaml --json
  posthaste config --example > posthaste.yaml`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case example && (asJSON || markdown), asJSON && markdown:
				return usageError{errors.New("--example and --json exclude each other")}
			case example:
				return settings.WriteExample(cmd.OutOrStdout())
			case markdown:
				return settings.WriteReference(cmd.OutOrStdout())
			}
			from := settings.Gather(cmd.Flags(), os.Environ())
			effective, wrong := settings.Explain(from)
			if asJSON {
				return errors.Join(wrong, printConfigJSON(cmd.OutOrStdout(), effective, wrong))
			}
			tellUnnamed(cmd.ErrOrStderr(), from)
			return errors.Join(wrong, printConfig(cmd.OutOrStdout(), effective))
		},
	}
	settings.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&example, "example", false, "write a YAML file of all settings")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write docs/reference-settings.md")
	_ = cmd.Flags().MarkHidden("markdown")
	return cmd
}

// printConfig puts the value last: it alone may be long.
func printConfig(w io.Writer, effective []settings.Effective) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tFROM\tVALUE")
	for _, e := range effective {
		fmt.Fprintf(table, "%s\t%s\t%s\n", e.Env, e.Origin, e.Text())
	}
	return table.Flush()
}

// tellUnnamed is for those who expect a file to be read because of its name.
func tellUnnamed(w io.Writer, from settings.Sources) {
	const name = "posthaste.yaml"
	if _, err := os.Stat(name); err == nil && from.Named == "" {
		fmt.Fprintf(w, "note: %s is here and is not read, since nothing names it; --config %s does\n", name, name)
	}
}

func printConfigJSON(w io.Writer, effective []settings.Effective, err error) error {
	page := struct {
		Settings []settings.Effective `json:"settings"`
		Problems []settings.Problem   `json:"problems"`
	}{effective, []settings.Problem{}}
	if wrong, ok := errors.AsType[*settings.Error](err); ok {
		page.Problems = wrong.Problems
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(page)
}
