//go:build !unix

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show the whole job on this machine (Linux and macOS only)",
		Args:  usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return errors.New("run demo: it freezes and kills processes as only Linux and macOS let it; try it there")
		},
	}
}
