package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command says what it is for and shows how it is called.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			if child.Hidden {
				continue
			}
			if child.Short == "" || !strings.Contains(child.Example, "posthaste") {
				t.Errorf("%s: want a line on what it is for, and examples", child.CommandPath())
			}
			check(child)
		}
	}
	check(newRoot())
}
