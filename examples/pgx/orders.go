// Package orders writes a change and its event in one transaction of pgx, over a pool or a single connection.
package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste"
)

// OrderConfirmed is what the event says; the writer adds id, type, time and aggregate.
type OrderConfirmed struct {
	OrderID string `json:"order_id"`
	Total   string `json:"total_amount"`
}

var orderConfirmedV1 = posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed",
	Version: 1}

// Database begins transactions: a *pgxpool.Pool, or a *pgx.Conn.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Orders confirms orders.
type Orders struct {
	db     Database
	writer *posthaste.Writer
}

// New is called once, when the service starts. An empty table is posthaste.DefaultTable.
func New(db Database, table string) (*Orders, error) {
	types, err := posthaste.NewRegistry(orderConfirmedV1)
	if err != nil {
		return nil, err
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: table})
	if err != nil {
		return nil, err
	}
	return &Orders{db: db, writer: writer}, nil
}

// Confirm makes a new order a confirmed one and writes the event. BeginFunc commits when the function returns nil;
// after an error, or a panic, it rolls both back.
func (o *Orders) Confirm(ctx context.Context, id string) error {
	return pgx.BeginFunc(ctx, o.db, func(tx pgx.Tx) error {
		var total string
		// The update locks the order's row until the end, which keeps the events of an order in order.
		err := tx.QueryRow(ctx,
			`update orders set status = 'confirmed' where id = $1 and status = 'new' returning total`, id).
			Scan(&total)
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
