package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

// withOperator opens the side tables for a command.
func withOperator(cmd *cobra.Command, do func(context.Context, *postgres.Operator) error) error {
	return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
		op, err := postgres.OpenOperator(ctx, conn, names)
		if err != nil {
			return err
		}
		return do(ctx, op)
	})
}

// actFlags are the flags of every command that changes something.
type actFlags struct {
	actor, reason             string
	yes, dryRun, json, noWait bool
	wait                      time.Duration
}

func (a *actFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&a.actor, "actor", "",
		"who wants it, for the audit table; the operating system's user and host stand there anyway")
	flags.StringVar(&a.reason, "reason", "", "why, for the audit table and for whoever wonders later")
	flags.BoolVar(&a.dryRun, "dry-run", false, "show what would be done, and do nothing")
	flags.BoolVar(&a.json, "json", false, "print one JSON object")
}

// addWait is for what relays take notice of.
func (a *actFlags) addWait(flags *pflag.FlagSet, what string) {
	flags.DurationVar(&a.wait, "wait", 10*time.Second, "wait so long "+what)
	flags.BoolVar(&a.noWait, "no-wait", false, "don't wait")
}

// addYes is for what is asked about first.
func (a *actFlags) addYes(flags *pflag.FlagSet) {
	flags.BoolVarP(&a.yes, "yes", "y", false, "don't ask; needed where nobody is at a terminal")
}

// by says who acts. Their words go to whoever reads the audit table at a terminal, one act a line.
func (a *actFlags) by(reasonFor string) (postgres.By, error) {
	for _, flag := range []struct{ name, value string }{{"actor", a.actor}, {"reason", a.reason}} {
		if strings.ContainsFunc(flag.value, func(r rune) bool { return !unicode.IsPrint(r) }) || len(flag.value) > 500 {
			return postgres.By{}, usageError{fmt.Errorf("--%s: want a line of at most 500 printable signs", flag.name)}
		}
	}
	if a.wait < 0 {
		return postgres.By{}, usageError{fmt.Errorf("--wait %v: want a duration, or 0 for none", a.wait)}
	}
	if a.noWait || a.dryRun {
		a.wait = 0
	}
	if reasonFor != "" && strings.TrimSpace(a.reason) == "" {
		return postgres.By{}, usageError{fmt.Errorf("%s needs a reason: --reason 'why it is right'", reasonFor)}
	}
	by := postgres.By{Actor: systemUser(), Reason: strings.TrimSpace(a.reason)}
	if actor := strings.TrimSpace(a.actor); actor != "" {
		by.Actor = actor + ", " + by.Actor
	}
	return by, nil
}

// systemUser is who runs this program as far as this machine knows, by sudo the one behind it.
func systemUser() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	if behind := os.Getenv("SUDO_USER"); behind != "" && behind != name {
		return fmt.Sprintf("%s@%s by sudo as %s", behind, host, name)
	}
	return name + "@" + host
}

// needsAnswer refuses, before anything is looked at, to act without being told to where nobody can be asked.
func (a *actFlags) needsAnswer(cmd *cobra.Command) error {
	if a.yes || a.dryRun || term.Asks(cmd.InOrStdin()) {
		return nil
	}
	return usageError{errors.New("nobody is at a terminal to confirm it: give --yes, or look first with --dry-run")}
}

// confirm asks a person. The question goes to standard error, since a pipe may take the output.
func (a *actFlags) confirm(cmd *cobra.Command, question string) error {
	if a.yes {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // ends with the line, or with the process
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-cmd.Context().Done():
		fmt.Fprintln(cmd.ErrOrStderr())
		return cmd.Context().Err()
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return errors.New("not confirmed, so nothing is done")
	}
}

// writeJSON writes one object on one line.
func writeJSON(screen term.Screen, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	if err == nil {
		_, err = screen.Write(screen.JSON(line.Bytes()))
	}
	return err
}

// pageFlags are the flags of a list that is walked along its ids.
func pageFlags(flags *pflag.FlagSet, p *postgres.Page, what string) {
	flags.IntVar(&p.Limit, "limit", 20, "at most so many "+what)
	flags.BoolVar(&p.OldestFirst, "oldest-first", false, "begin with the lowest id")
	flags.Int64Var(&p.Above, "above", 0, "with ids above this only")
	flags.Int64Var(&p.Below, "below", 0, "with ids below this only")
}

func checkPage(p postgres.Page) error {
	if p.Limit < 1 {
		return usageError{fmt.Errorf("--limit %d: want a number above 0", p.Limit)}
	}
	return nil
}

// noteMore says how a list goes on.
func noteMore(cmd *cobra.Command, more bool, p postgres.Page, last int64) {
	if more {
		bound := "below"
		if p.OldestFirst {
			bound = "above"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "note: there are more; to go on from there add --%s %d, to see more at once "+
			"raise --limit\n", bound, last)
	}
}

// given returns the value of a flag that means something when it is empty too, nil where it is not given.
func given(cmd *cobra.Command, flag string, value string) *string {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// waitingText is a count of what waits.
func waitingText(w *postgres.Waiting) string {
	switch {
	case w == nil:
		return "unknown"
	case w.Capped:
		return number(w.Events) + "+"
	}
	return number(w.Events)
}

// say writes a line for people.
func (a *actFlags) say(cmd *cobra.Command, format string, args ...any) {
	if !a.json {
		fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	}
}
