package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// runRelay ships events until the context ends. It returns nil after a clean stop.
func runRelay(ctx context.Context, cfg *settings.Config, renew func() (*pgx.ConnConfig, error),
	logger *slog.Logger) error {
	names := cfg.Database.Names
	names.Group = cfg.Relay.Group
	store, err := postgres.NewStore(postgres.Config{
		Conn:       cfg.Database.Conn,
		Renew:      renew,
		Names:      names,
		Settle:     cfg.Relay.Settle,
		SettleSync: cfg.Relay.SettleSync,
		Lanes:      cfg.Relay.Lanes,
		Member:     memberName(),
		Version:    programVersion(),
		Logger:     logger,
	})
	if err != nil {
		return usageError{err}
	}
	producer, err := kafka.NewProducer(reachedBy(cfg.Kafka))
	if err != nil {
		return usageError{err}
	}
	defer producer.Close()
	r, err := relay.New(store, producer, cfg.Relay.Config)
	if err != nil {
		return usageError{err}
	}
	server, err := listen(cfg.HTTP.Addr, r)
	if err != nil {
		return err
	}
	logger.Info("posthaste relay", "version", programVersion(), "table", names.Table.String(),
		"schema", names.Schema, "group", names.Group,
		"brokers", strings.Join(cfg.Kafka.Brokers, ","), "http", server.addr())
	// The pages outlive the relay's draining, so that a supervisor can watch it.
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return server.run(serve) })
	group.Go(func() error {
		defer stop()
		return r.Run(running)
	})
	return group.Wait()
}

// memberName tells people which process a member is.
func memberName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
