package posthaste_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/posthastetest"
)

// OrderConfirmed is the event, OrderConfirmedV1 its type: declared once, beside the aggregate they belong to.
type OrderConfirmed struct {
	OrderID  string `json:"order_id"`
	Total    string `json:"total_amount"`
	Currency string `json:"currency"`
}

var OrderConfirmedV1 = posthaste.EventType{
	Service:   "order-service",
	Aggregate: "Order",
	Name:      "order.confirmed",
	Version:   1,
}

// The event is written in the transaction of the business change: both are committed, or neither.
func ExampleWriter_Write() {
	ctx := context.Background()
	database := exampleDatabase(ctx)
	defer database.Close()
	pool := database.Pool // a *pgxpool.Pool, as pgxpool.New returns it

	// Once, when the service starts.
	types, err := posthaste.NewRegistry(OrderConfirmedV1)
	if err != nil {
		log.Fatal(err)
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: database.Table})
	if err != nil {
		log.Fatal(err)
	}

	// In the handler. The update locks the order's row, which keeps the events of one order in order.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update orders set status = 'confirmed' where id = $1`, "o-1"); err != nil {
			return err
		}
		return writer.Write(ctx, tx, posthaste.Event{
			Type:        OrderConfirmedV1.String(),
			AggregateID: "o-1",
			Payload:     OrderConfirmed{OrderID: "o-1", Total: "19.90", Currency: "EUR"},
		})
	})
	if err != nil {
		log.Fatal(err)
	}

	var topic, key, total string
	row := pool.QueryRow(ctx, `select topic, partition_key, payload->>'total_amount' from outbox_event`)
	if err := row.Scan(&topic, &key, &total); err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic, key, total)
	// Output: order-service.order.confirmed o-1 19.90
}

// The same by database/sql, whatever the driver.
func ExampleWriter_WriteSQL() {
	ctx := context.Background()
	database := exampleDatabase(ctx)
	defer database.Close()
	db, err := sql.Open("pgx", database.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	types, err := posthaste.NewRegistry(OrderConfirmedV1)
	if err != nil {
		log.Fatal(err)
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: database.Table})
	if err != nil {
		log.Fatal(err)
	}

	confirm := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if _, err := tx.ExecContext(ctx, `update orders set status = 'confirmed' where id = $1`, "o-1"); err != nil {
			return err
		}
		err = writer.WriteSQL(ctx, tx, posthaste.Event{
			Type:        OrderConfirmedV1.String(),
			AggregateID: "o-1",
			Payload:     OrderConfirmed{OrderID: "o-1", Total: "19.90", Currency: "EUR"},
		})
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := confirm(); err != nil {
		log.Fatal(err)
	}

	var events int
	if err := db.QueryRowContext(ctx, `select count(*) from outbox_event`).Scan(&events); err != nil {
		log.Fatal(err)
	}
	fmt.Println(events)
	// Output: 1
}

// All mistakes are told at once, when the service starts.
func ExampleNewRegistry() {
	_, err := posthaste.NewRegistry(
		OrderConfirmedV1,
		posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.pay", Version: 1},
		posthaste.EventType{Service: "my shop", Aggregate: "Order", Name: "order.shipped"},
	)
	fmt.Println(err)
	// Output:
	// register event types:
	//   event type order.pay.v1: Name is a command: "pay" in "order.pay": use the past tense, or set AllowImperative
	//   event type order.shipped.v0: Version is 0: versions count from 1
	//   event type order.shipped.v0: Service "my shop": want ASCII letters and digits, in parts joined by one of . - _
}

// A refused call has sent nothing, so the transaction goes on. The error names every event and field.
func ExampleRefusedError() {
	ctx := context.Background()
	database := exampleDatabase(ctx)
	defer database.Close()
	types, err := posthaste.NewRegistry(OrderConfirmedV1)
	if err != nil {
		log.Fatal(err)
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: database.Table})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, database.Pool, func(tx pgx.Tx) error {
		return writer.Write(ctx, tx,
			posthaste.Event{Type: "order.confirmed.v1", AggregateID: "o-1", Payload: []byte(`{"a": 1, "a": 2}`)},
			posthaste.Event{Type: "order.confirmed.v2", AggregateID: "o-1", Payload: []byte(`{}`)},
		)
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, posthaste.ErrRepeatedKey))
	// Output:
	// write events: 2 of 2 refused, nothing was written:
	//   event 0 order.confirmed.v1: payload repeats a key, of which jsonb would keep only the last: a (at byte 9)
	//   event 1 order.confirmed.v2: event_type is not registered: add it to the Registry given as Config.Types
	// true
}

// The shared producer for technical events. A domain event does not pass.
func ExampleTechnical() {
	// Once, when the service starts.
	types, err := posthaste.NewRegistry(OrderConfirmedV1)
	if err != nil {
		log.Fatal(err)
	}
	sender, err := kafka.NewSender(kafka.Config{Brokers: []string{"127.0.0.1:9092"}, ClientID: "order-service"})
	if err != nil {
		log.Fatal(err)
	}
	technical, err := posthaste.NewTechnical(posthaste.TechnicalConfig{Types: types, Sender: sender})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer technical.Close(ctx)

	// Anywhere. Kafka never sees this one.
	err = technical.Send(ctx, posthaste.TechnicalEvent{
		Topic:   "order-service.order.confirmed",
		Type:    "cache.invalidated",
		Key:     "o-1",
		Payload: struct{}{},
	})
	fmt.Println("a domain event:", errors.Is(err, posthaste.ErrDomainEvent))
	// Output: a domain event: true
}

// exampleDatabase is an outbox beside a table of orders.
func exampleDatabase(ctx context.Context) *posthastetest.Outbox {
	database, err := posthastetest.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	const orders = `
		create table orders (id text primary key, status text not null);
		insert into orders values ('o-1', 'new')`
	if _, err := database.Pool.Exec(ctx, orders); err != nil {
		log.Fatal(err)
	}
	return database
}
