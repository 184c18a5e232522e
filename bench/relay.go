package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// relays are the relays that stand in this command, by the word that runs them as a process.
var relays = map[string]func(ctx context.Context, db *pgx.Conn, args []string) error{
	"handwritten": runHandwritten,
	"markbound":   runMarkBound,
	"ceiling":     runCeiling,
}

func runRelay(ctx context.Context, name string, args []string) error {
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	return relays[name](ctx, db, args)
}

func brokersOf() []string { return strings.Split(os.Getenv("KAFKA_BROKERS"), ",") }

// newProducer returns the safest producer of franz-go, which is its default: idempotent, acks=all. Records go at once.
func newProducer(brokers []string, more ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(brokers...), kgo.ProducerLinger(0))...)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	return client, nil
}

// pause waits between two polls; false when the relay is to stop.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
