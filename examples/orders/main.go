// Command orders is a small order service with the relay inside: it confirms orders and writes their events in the same
// transactions, some of which are rolled back; the relay ships what was committed; a consumer counts what arrives.
//
//	go run ./testbed exec --postgres 15 --kafka 1 -- go run ./examples/orders
//
// On your own servers set DATABASE_URL and KAFKA_BROKERS; it works in a schema of its own, orders_example.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// OrderConfirmed is what the event says; id, type and time of the event are added by the writer.
type OrderConfirmed struct {
	OrderID string `json:"order_id"`
	Step    int    `json:"step"`
}

var orderConfirmedV1 = posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed",
	Version: 1}

const (
	orders = 200
	steps  = 20 // transactions an order; every tenth is rolled back
	table  = "orders_example.outbox_event"
	side   = "orders_example_posthaste"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	url := cmp.Or(os.Getenv("DATABASE_URL"), os.Getenv("POSTHASTE_TEST_DATABASE_URL"))
	brokers := cmp.Or(os.Getenv("KAFKA_BROKERS"), os.Getenv("POSTHASTE_TEST_KAFKA_BROKERS"))
	if url == "" || brokers == "" {
		return errors.New("no servers: set DATABASE_URL and KAFKA_BROKERS, " +
			"or run it by `go run ./testbed exec -- go run ./examples/orders`")
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	names, err := prepare(ctx, pool)
	if err != nil {
		return err
	}
	types, err := posthaste.NewRegistry(orderConfirmedV1)
	if err != nil {
		return err
	}
	topic := types.Types()[0].Topic
	consumer, err := newConsumer(ctx, strings.Split(brokers, ","), topic)
	if err != nil {
		return err
	}
	defer consumer.close()

	// The relay runs beside the service's own work and ends with it.
	shipper, closeShipper, err := newRelay(pool, names, strings.Split(brokers, ","))
	if err != nil {
		return err
	}
	defer closeShipper()
	shipping, stopShipping := context.WithCancel(ctx)
	shipped := make(chan error, 1)
	go func() { shipped <- shipper.Run(shipping) }()

	begun := time.Now()
	committed, err := confirmAll(ctx, pool, types)
	if err == nil {
		err = consumer.await(ctx, committed)
	}
	took := time.Since(begun)
	stopShipping()
	if err := errors.Join(err, <-shipped); err != nil {
		return err
	}
	fmt.Printf("%d orders, %d transactions, %d rolled back\n", orders, orders*steps, orders*steps-committed)
	fmt.Printf("%d events committed, %d delivered to %s in order, 0 missing, 0 twice, in %v\n",
		committed, consumer.count(), topic, took.Round(time.Millisecond))
	return nil
}

// prepare makes the service's own table and the outbox.
func prepare(ctx context.Context, pool *pgxpool.Pool) (postgres.Names, error) {
	names, err := postgres.ParseNames(table, side)
	if err != nil {
		return names, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return names, err
	}
	defer conn.Release()
	_, err = conn.Exec(ctx, `
drop schema if exists orders_example_posthaste cascade;
drop schema if exists orders_example cascade;
create schema orders_example;
create table orders_example.orders (id text primary key, step int not null)`)
	if err == nil {
		_, err = postgres.Migrate(ctx, conn.Conn(), names, postgres.MigrateOptions{})
	}
	return names, err
}

func newRelay(pool *pgxpool.Pool, names postgres.Names, brokers []string) (*relay.Relay, func(), error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := postgres.NewStore(postgres.Config{Conn: pool.Config().ConnConfig, Names: names, Member: "orders",
		Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	producer, err := kafka.NewProducer(kafka.Config{Brokers: brokers, ClientID: "order-service"})
	if err != nil {
		return nil, nil, err
	}
	r, err := relay.New(store, producer, relay.Config{Logger: logger})
	return r, producer.Close, err
}

// confirmAll confirms every order step by step, the orders at once, and returns how many transactions were committed.
func confirmAll(ctx context.Context, pool *pgxpool.Pool, types *posthaste.Registry) (int, error) {
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: table})
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var committed int
	var errs []error
	for n := range orders {
		group.Go(func() {
			for step := range steps {
				err := confirm(ctx, pool, writer, fmt.Sprintf("order-%d", n), step)
				mu.Lock()
				switch {
				case err == nil:
					committed++
				case !errors.Is(err, errChangedMind):
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return committed, errors.Join(errs...)
}

var errChangedMind = errors.New("the customer changed their mind")

// confirm is the handler: the business change and its event, in one transaction. The row lock that the change takes
// keeps the events of one order in order.
func confirm(ctx context.Context, pool *pgxpool.Pool, writer *posthaste.Writer, order string, step int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
insert into orders_example.orders (id, step) values ($1, $2)
on conflict (id) do update set step = excluded.step`, order, step)
		if err != nil {
			return err
		}
		err = writer.Write(ctx, tx, posthaste.Event{
			Type:        orderConfirmedV1.String(),
			AggregateID: order,
			Payload:     OrderConfirmed{OrderID: order, Step: step},
		})
		if err == nil && step%10 == 9 {
			return errChangedMind
		}
		return err
	})
}
