// Package orders writes a change and its event in one transaction of bun.
package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"posthaste.dev/posthaste"
)

// Order is a row of the table orders.
type Order struct {
	ID     string `bun:",pk"`
	Status string
	Total  string
}

// OrderConfirmed is what the event says; the writer adds id, type, time and aggregate.
type OrderConfirmed struct {
	OrderID string `json:"order_id"`
	Total   string `json:"total_amount"`
}

var orderConfirmedV1 = posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed",
	Version: 1}

// Orders confirms orders.
type Orders struct {
	db     *bun.DB
	writer *posthaste.Writer
}

// New is called once, when the service starts. An empty table is posthaste.DefaultTable.
func New(db *bun.DB, table string) (*Orders, error) {
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

// Confirm makes a new order a confirmed one and writes the event. RunInTx commits when the function returns nil; after
// an error, or a panic, it rolls both back.
func (o *Orders) Confirm(ctx context.Context, id string) error {
	return o.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		var order Order
		// The update locks the order's row until the end, which keeps the events of an order in order.
		err := tx.NewUpdate().Model(&order).Set("status = 'confirmed'").
			Where("id = ? and status = 'new'", id).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("confirm order %s: not there, or not new", id)
		}
		if err != nil {
			return err
		}
		// tx.Tx is the *sql.Tx within. bun's own ExecContext writes arguments into the statement where it has a ?, and
		// the writer's statement has $1: passed itself, a bun.Tx is refused by PostgreSQL, and the error says so.
		return o.writer.WriteSQL(ctx, tx.Tx, posthaste.Event{
			Type:        orderConfirmedV1.String(),
			AggregateID: id,
			Payload:     OrderConfirmed{OrderID: id, Total: order.Total},
		})
	})
}
