// Command httpservice takes orders over HTTP and has the relay inside: one process, one binary to run.
//
//	DATABASE_URL=postgres://... KAFKA_BROKERS=127.0.0.1:9092 go run ./examples/httpservice
//	curl -d '{"id": "o-1", "total": "19.90"}' http://127.0.0.1:8080/orders
//
// The relays of several replicas share the outbox. SIGTERM stops it cleanly; a second one at once.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// config is where everything is. A service has its own way to fill it; this one takes the environment.
type config struct {
	databaseURL string
	brokers     []string
	address     string // of the HTTP server
	service     string // the first part of the topics, and Kafka's client id
	table       string // the outbox; posthaste.DefaultTable if empty
	schema      string // of the relays' side tables
}

func fromEnvironment() (config, error) {
	cfg := config{
		databaseURL: os.Getenv("DATABASE_URL"),
		address:     cmp.Or(os.Getenv("HTTP_ADDR"), "127.0.0.1:8080"),
		service:     cmp.Or(os.Getenv("SERVICE"), "order-service"),
		table:       cmp.Or(os.Getenv("POSTHASTE_TABLE"), "public.outbox_event"),
		schema:      cmp.Or(os.Getenv("POSTHASTE_SCHEMA"), "posthaste"),
	}
	for broker := range strings.SplitSeq(os.Getenv("KAFKA_BROKERS"), ",") {
		if broker = strings.TrimSpace(broker); broker != "" {
			cfg.brokers = append(cfg.brokers, broker)
		}
	}
	if cfg.databaseURL == "" || len(cfg.brokers) == 0 {
		return cfg, errors.New("set DATABASE_URL and KAFKA_BROKERS")
	}
	return cfg, nil
}

func main() {
	// All of it logs to one slog.Logger: the service's own lines, the relay's, and those about the outbox.
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // gives the second signal back to the system, which ends the process

	cfg, err := fromEnvironment()
	if err == nil {
		err = run(ctx, cfg, logger)
	}
	if err != nil {
		logger.Error("order service fails", "error", err)
		os.Exit(1)
	}
}
