package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/postgres"
)

// build is what this program was made from. Its names in JSON are promised.
type build struct {
	Version  string `json:"version"`  // of the module; devel for one that was built from a clone
	Commit   string `json:"commit"`   // "" where the build did not record it
	Modified bool   `json:"modified"` // built with changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Tables   int    `json:"side_tables"` // the version of the side tables that it knows
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the side tables it knows",
		Example: `  posthaste version
  posthaste version --json`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			commit := "commit not recorded"
			if b.Commit != "" {
				commit = "commit " + b.Commit
			}
			if b.Modified {
				commit += " with changes"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "posthaste %s (%s, %s, %s), side tables version %d\n",
				b.Version, commit, b.Go, b.Platform, b.Tables)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"print one JSON object: version, commit, modified, go, platform, side_tables")
	return cmd
}

func readBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Tables: postgres.SchemaVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// programVersion is the module's version for a released program, and the commit for one built from a clone.
func programVersion() string {
	b := readBuild()
	if b.Version == "devel" && b.Commit != "" {
		return "commit " + b.Commit
	}
	return b.Version
}
