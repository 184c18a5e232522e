// Command testbed starts the servers that Posthaste's tests need, on this machine, and stops them again.
//
//	go run ./testbed up [--postgres 15,13,18] [--kafka 1,3] [--durable]   start what is missing
//	go run ./testbed status                                               tell what runs
//	go run ./testbed env                                                  print the settings as shell exports
//	go run ./testbed exec [flags of up] -- command [arguments]            up, run the command, stop what was started
//	go run ./testbed down [server...]                                     stop them, or all, and delete their data
//
// Servers given by environment variable (POSTHASTE_TEST_...) are used and not started. Everything stands in the folder
// .testbed of the repository; downloads stay in the user's cache. PostgreSQL runs without fsync unless told to be
// durable, which only a server that is not up yet can be told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: go run ./testbed COMMAND

  up [--postgres 15,13,18] [--kafka 1,3] [--durable]
                    start the servers that are missing; "none" leaves a kind out;
                    --durable: PostgreSQL with fsync, for measuring
  status            tell what runs
  env               print the settings as shell exports
  exec [flags of up] -- COMMAND [ARGUMENT...]
                    up, run the command, stop what was started for it
  down [SERVER...]  stop the named ones, or all, and delete their data
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	var exit commandFailed
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	case errors.As(err, &exit):
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(max(exit.ExitCode(), 1)) // -1 stands for the end by a signal
	default:
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no command given; `go run ./testbed help` lists them")
	}
	bed, err := openBed()
	if err != nil {
		return err
	}
	switch command, rest := args[0], args[1:]; command {
	case "up":
		want, rest, err := parseWant(rest)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("up: unexpected argument %q", rest[0])
		}
		if err != nil {
			return err
		}
		return bed.up(ctx, want)
	case "status":
		return bed.status(ctx, os.Stdout)
	case "env":
		bed.export(os.Stdout)
		return nil
	case "exec":
		want, rest, err := parseWant(rest)
		if err != nil {
			return err
		}
		return bed.exec(ctx, want, rest)
	case "down":
		return bed.down(ctx, rest...)
	case "help", "-h", "--help":
		return flag.ErrHelp
	default:
		return fmt.Errorf("unknown command %q; `go run ./testbed help` lists them", command)
	}
}
