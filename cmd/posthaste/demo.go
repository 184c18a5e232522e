//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/demo"
	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/kafka"
)

func newDemo() *cobra.Command {
	cfg := demo.Config{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole job on this machine, with servers brought along",
		Long: `Show the whole job on this machine. A small order service writes events with its data, some of it rolled
back; two relays ship them, and one of the two gets kill -9 with a chunk in flight. Then an independent check reads
Kafka from the beginning and compares.

A real PostgreSQL is brought along (downloaded once) and a Kafka inside this process. Where DATABASE_URL or
KAFKA_BROKERS is set, that one is used instead, with a schema and topics of the demo's own. All that the demo
makes is removed at the end, whichever way it ends.

Exit status 0 if the check passes, 1 if it finds an event lost, reordered, altered, never committed, or delivered
twice without having been in flight at the kill.`,
		Example: `  posthaste demo
  posthaste demo --keep                        # goes on afterwards, to look around and try things
  KAFKA_BROKERS=localhost:9092 posthaste demo  # over a Kafka of yours`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, cfg) },
	}
	cmd.Flags().DurationVar(&cfg.For, "for", 6*time.Second, "how long the service writes")
	cmd.Flags().IntVar(&cfg.Rate, "rate", 1000, "events a second that it writes")
	cmd.Flags().BoolVar(&cfg.Keep, "keep", false, "go on until Ctrl-C after the check, and say what to try")
	cmd.AddCommand(&cobra.Command{
		Use:    demo.CleanerArgs[1],
		Short:  "Remove what a demo made; it runs this itself",
		Hidden: true,
		Args:   usage(cobra.NoArgs),
		RunE:   func(cmd *cobra.Command, _ []string) error { return demo.CleanUp(cmd.InOrStdin()) },
	})
	return cmd
}

func runDemo(cmd *cobra.Command, cfg demo.Config) (err error) {
	if cfg.For < 2*time.Second || cfg.For > time.Hour {
		return usageError{fmt.Errorf("--for %s: want 2s to 1h", cfg.For)}
	}
	if cfg.Rate < 50 || cfg.Rate > 1_000_000 {
		return usageError{fmt.Errorf("--rate %d: want 50 to 1000000", cfg.Rate)}
	}
	if cfg.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	if err := givenServers(cmd, &cfg); err != nil {
		return err
	}
	cfg.Out, cfg.Command = cmd.OutOrStdout(), os.Args[0]
	ctx := cmd.Context()
	if strings.Contains(cfg.Program, "go-build") {
		cfg.Command = "go run ./cmd/posthaste"
		var stop context.CancelFunc
		ctx, stop = untilOrphaned(ctx)
		defer stop()
	}
	err = demo.Run(ctx, cfg)
	if failed, ok := errors.AsType[*demo.DownloadError](err); ok {
		return hinted{failed, "see to the network, or set DATABASE_URL to use a PostgreSQL of yours, such as " +
			"postgres://user:password@host:5432/database"}
	}
	return err
}

// givenServers takes those servers from the settings that the user gave, and looks whether they answer.
func givenServers(cmd *cobra.Command, cfg *demo.Config) error {
	all, err := loadSettings(cmd, settings.GroupDatabase, settings.GroupKafka)
	if wrong, ok := errors.AsType[*settings.Error](err); ok && slices.ContainsFunc(wrong.Problems, isMissingBrokers) {
		all, err = loadSettings(cmd, settings.GroupDatabase)
	}
	if err != nil {
		return err
	}
	if cfg.DatabaseURL = all.Database.URL; cfg.DatabaseURL != "" {
		conn, err := connect(cmd.Context(), all.Database.Conn)
		if err != nil {
			return err
		}
		if err := conn.Close(cmd.Context()); err != nil {
			return err
		}
	}
	k := all.Kafka
	if len(k.Brokers) == 0 {
		return nil
	}
	if k.CAFile != "" {
		if k.CAFile, err = filepath.Abs(k.CAFile); err != nil {
			return err
		}
	}
	cfg.Kafka = reachedBy(k)
	return reach(cmd.Context(), cfg.Kafka)
}

// reach fails, with the cause, where no broker answers.
func reach(ctx context.Context, cfg kafka.Config) error {
	producer, err := kafka.NewProducer(cfg)
	if err != nil {
		return usageError{err}
	}
	defer producer.Close()
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err = producer.Ping(bounded)
	return err
}

func isMissingBrokers(p settings.Problem) bool { return p.Name == "KAFKA_BROKERS" && p.Given == "" }

// untilOrphaned ends the context when this process's parent has gone: `go run` ends by a SIGTERM and does not hand it
// on.
func untilOrphaned(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		look := time.NewTicker(500 * time.Millisecond)
		defer look.Stop()
		for os.Getppid() == parent {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
	return ctx, stop
}
