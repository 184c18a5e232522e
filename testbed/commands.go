package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// status writes a line for each server that the test bed knows.
func (b *bed) status(ctx context.Context, out io.Writer) error {
	for _, u := range everything.units() {
		line := "down"
		if os.Getenv(u.key) != "" {
			line = "given by " + u.key
		} else {
			state, err := b.state(ctx, u)
			switch {
			case err != nil:
				return err
			case state == running:
				line = "up    " + u.key + "=" + b.get(u.key)
			case state == broken:
				line = "broken; `go run ./testbed up` starts it anew"
			}
		}
		fmt.Fprintf(out, "%-12s %s\n", u.name, line)
	}
	return nil
}

// export writes the settings for a POSIX shell. Those that the environment has already are left out.
func (b *bed) export(out io.Writer) {
	settings := b.unset()
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(out, "export %s='%s'\n", key, strings.ReplaceAll(settings[key], "'", `'\''`))
	}
}

// unset returns the settings that the environment does not have already.
func (b *bed) unset() map[string]string {
	settings := maps.Clone(b.settings)
	maps.DeleteFunc(settings, func(key, _ string) bool { return os.Getenv(key) != "" })
	return settings
}

// commandFailed says that the command of exec ended badly, and how.
type commandFailed struct{ *exec.ExitError }

// exec runs a command with the settings in its environment, and stops what it has started for it, also when the command
// fails or somebody interrupts. Servers that were up before stay.
func (b *bed) exec(ctx context.Context, w want, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("exec: no command given; write it after --")
	}
	occupied, err := b.occupied()
	if err != nil {
		return err
	}
	missing, err := b.missing(ctx, w)
	if err != nil {
		return err
	}
	if !occupied || len(missing) > 0 {
		defer func() { err = errors.Join(err, b.down(context.WithoutCancel(ctx), missing...)) }()
	}
	if err := b.up(ctx, w); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// Ctrl-C reaches the command by the terminal, too; the second signal does no harm.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	for key, value := range b.unset() {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return commandFailed{exit}
	}
	return err
}
