package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/postgres"
)

type order struct {
	ID    string `json:"id"`
	Total string `json:"total"`
}

// OrderPlaced is what the event says; the writer adds id, type, time and aggregate.
type OrderPlaced struct {
	OrderID string `json:"order_id"`
	Total   string `json:"total_amount"`
}

// eventTypes are the events of the service: declared in one place, checked when it starts.
func eventTypes(service string) (*posthaste.Registry, error) {
	return posthaste.NewRegistry(
		posthaste.EventType{Service: service, Aggregate: "Order", Name: "order.placed", Version: 1},
	)
}

func topicsOf(types *posthaste.Registry) (topics []string) {
	for _, t := range types.Types() {
		topics = append(topics, t.Topic)
	}
	return topics
}

// refusedOrder is an order that can't be placed, and says why to whoever placed it.
type refusedOrder struct {
	status int
	reason string
}

func (e *refusedOrder) Error() string { return e.reason }

type orders struct {
	pool   *pgxpool.Pool
	writer *posthaste.Writer
}

func newOrders(pool *pgxpool.Pool, types *posthaste.Registry, table string) (*orders, error) {
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: table})
	if err != nil {
		return nil, err
	}
	return &orders{pool: pool, writer: writer}, nil
}

// place writes the order and its event in one transaction.
func (s *orders) place(ctx context.Context, o order) error {
	if o.ID == "" || o.Total == "" || strings.ContainsRune(o.ID+o.Total, 0) {
		return &refusedOrder{http.StatusBadRequest,
			"an order has an id and a total, of characters that PostgreSQL can store"}
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into orders (id, total) values ($1, $2) on conflict do nothing`, o.ID, o.Total)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return &refusedOrder{http.StatusConflict, "order " + o.ID + " is placed already"}
		}
		return s.writer.Write(ctx, tx, posthaste.Event{
			Type:        "order.placed.v1",
			AggregateID: o.ID,
			Payload:     OrderPlaced{OrderID: o.ID, Total: o.Total},
		})
	})
}

// prepare makes the service's table and the outbox where they are not there yet. Services mostly leave this to their
// deployment; for the outbox that is `posthaste migrate up`.
func prepare(ctx context.Context, pool *pgxpool.Pool, names postgres.Names) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx,
		`create table if not exists orders (id text primary key, total text not null)`); err != nil {
		return fmt.Errorf("create table orders: %w", err)
	}
	_, err = postgres.Migrate(ctx, conn.Conn(), names, postgres.MigrateOptions{})
	return err
}

// makeTopics makes the service's own topics where they are not there yet; it would not touch those of others.
func makeTopics(ctx context.Context, brokers, topics []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const partitions, replicas = 6, -1 // -1 is the cluster's default
	made, err := kadm.NewClient(client).CreateTopics(ctx, partitions, replicas, nil, topics...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, topic := range made {
		if topic.Err != nil && !errors.Is(topic.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic.Topic, topic.Err)
		}
	}
	return nil
}
