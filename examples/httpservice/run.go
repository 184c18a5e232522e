package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// How long each step of a stop may take. Together they stay below the 30 s that Kubernetes gives.
const (
	finishRequests = 10 * time.Second
	emptyOutbox    = 8 * time.Second
	drainRelay     = 10 * time.Second
)

// run serves until the context ends, and returns nil after a clean stop.
//
// The order of the stop matters. First the HTTP server finishes the requests it has, and each may write one more event.
// Then what they wrote is waited for. Only then the relay stops: it finishes the chunk that is with Kafka and frees its
// lanes. The other way round the last events would lie in the table until another relay, or the next start, finds them.
// Late, not lost; so each step is bounded, and its timeout costs nothing but that.
func run(ctx context.Context, cfg config, logger *slog.Logger) error {
	pool, err := pgxpool.New(ctx, cfg.databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	names, err := postgres.ParseNames(cfg.table, cfg.schema)
	if err != nil {
		return err
	}
	types, err := eventTypes(cfg.service)
	if err != nil {
		return err
	}
	if err := prepare(ctx, pool, names); err != nil {
		return err
	}
	if err := makeTopics(ctx, cfg.brokers, topicsOf(types)); err != nil {
		// No reason not to take orders: the events of a missing topic wait in the outbox.
		logger.Warn("events will wait until their topics exist", "topics", topicsOf(types), "error", err)
	}
	producer, err := kafka.NewProducer(kafka.Config{Brokers: cfg.brokers, ClientID: cfg.service})
	if err != nil {
		return err
	}
	defer producer.Close()
	shipper, err := newRelay(pool, names, producer, cfg.service, logger)
	if err != nil {
		return err
	}
	orders, err := newOrders(pool, types, cfg.table)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.address)
	if err != nil {
		return err
	}
	// No base context from ctx: a stop must not cancel the requests that it lets finish.
	server := &http.Server{Handler: handler(orders, pool, shipper, logger), ReadHeaderTimeout: 5 * time.Second}

	// The relay's context is not the group's: it ends last. The group's ends with the caller's, or when a part fails.
	shipping, stopShipping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopShipping()
	group, ctx := errgroup.WithContext(ctx)
	relayEnded := make(chan struct{})
	group.Go(func() error {
		defer close(relayEnded)
		// Outages of PostgreSQL and Kafka it rides out. An error needs a person: the service stops with it, and whoever
		// watches the service sees it.
		return shipper.Run(shipping)
	})
	group.Go(func() error {
		logger.Info("order service listens", "address", listener.Addr().String(), "topics", topicsOf(types))
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		defer stopShipping()
		<-ctx.Done()
		logger.Info("order service stops", "cause", context.Cause(ctx).Error())
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishRequests)
		defer cancel()
		if err := server.Shutdown(bounded); err != nil {
			return fmt.Errorf("finish requests: %w", err)
		}
		if !shipped(pool, names.Table.String(), relayEnded) {
			logger.Warn("events are left for another relay or the next start")
		}
		return nil
	})
	return group.Wait()
}

func newRelay(pool *pgxpool.Pool, names postgres.Names, producer *kafka.Producer, service string, logger *slog.Logger) (
	*relay.Relay, error) {
	logger = logger.With("part", "relay")
	store, err := postgres.NewStore(postgres.Config{
		Conn: pool.Config().ConnConfig, Names: names, Member: service, Logger: logger})
	if err != nil {
		return nil, err
	}
	return relay.New(store, producer, relay.Config{DrainTimeout: drainRelay, Logger: logger})
}

// shipped waits until all that is in the outbox now is published. It looks at the events up to the newest only, so that
// replicas that go on writing don't keep it waiting.
func shipped(pool *pgxpool.Pool, table string, relayEnded <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), emptyOutbox)
	defer cancel()
	var newest int64
	if err := pool.QueryRow(ctx, `select coalesce(max(id), 0) from `+table).Scan(&newest); err != nil {
		return false
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var left bool
		err := pool.QueryRow(ctx, `
			select exists (select from `+table+` where published_at is null and id <= $1)`, newest).Scan(&left)
		if err != nil || !left {
			return err == nil
		}
		select {
		case <-tick.C:
		case <-relayEnded:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
