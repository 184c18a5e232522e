// Package orders writes a change and its event in one transaction, the change by code that sqlc generates for pgx.
//
// With sqlc's default, database/sql, it is the same with BeginTx, and WriteSQL for Write: see the recipe databasesql.
package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/examples/sqlc/db"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

// OrderConfirmed is what the event says; the writer adds id, type, time and aggregate.
type OrderConfirmed struct {
	OrderID string `json:"order_id"`
	Total   string `json:"total_amount"`
}

var orderConfirmedV1 = posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed",
	Version: 1}

// Orders confirms orders.
type Orders struct {
	pool    *pgxpool.Pool
	queries *db.Queries
	writer  *posthaste.Writer
}

// New is called once, when the service starts. An empty table is posthaste.DefaultTable.
func New(pool *pgxpool.Pool, table string) (*Orders, error) {
	types, err := posthaste.NewRegistry(orderConfirmedV1)
	if err != nil {
		return nil, err
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: table})
	if err != nil {
		return nil, err
	}
	return &Orders{pool: pool, queries: db.New(pool), writer: writer}, nil
}

// Confirm makes a new order a confirmed one and writes the event. BeginFunc commits when the function returns nil;
// after an error, or a panic, it rolls both back.
func (o *Orders) Confirm(ctx context.Context, id string) error {
	return pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		// The update locks the order's row until the end, which keeps the events of an order in order.
		total, err := o.queries.WithTx(tx).ConfirmOrder(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("confirm order %s: not there, or not new", id)
		}
		if err != nil {
			return err
		}
		return o.writer.Write(ctx, tx, posthaste.Event{
			Type:        orderConfirmedV1.String(),
			AggregateID: id,
			Payload:     OrderConfirmed{OrderID: id, Total: total},
		})
	})
}
