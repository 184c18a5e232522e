// Package orders writes a change and its event in one transaction of database/sql. It is the same with every PostgreSQL
// driver; the tests take two, pgx and lib/pq.
package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"posthaste.dev/posthaste"
)

// OrderConfirmed is what the event says; the writer adds id, type, time and aggregate.
type OrderConfirmed struct {
	OrderID string `json:"order_id"`
	Total   string `json:"total_amount"`
}

var orderConfirmedV1 = posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed",
	Version: 1}

// Orders confirms orders.
type Orders struct {
	db     *sql.DB
	writer *posthaste.Writer
}

// New is called once, when the service starts. An empty table is posthaste.DefaultTable.
func New(db *sql.DB, table string) (*Orders, error) {
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

// Confirm makes a new order a confirmed one and writes the event, in one transaction.
func (o *Orders) Confirm(ctx context.Context, id string) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // takes both back on every way out but the last; does nothing after the commit

	var total string
	// The update locks the order's row until the end, which keeps the events of an order in order.
	err = tx.QueryRowContext(ctx,
		`update orders set status = 'confirmed' where id = $1 and status = 'new' returning total`, id).
		Scan(&total)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("confirm order %s: not there, or not new", id)
	}
	if err != nil {
		return err
	}
	err = o.writer.WriteSQL(ctx, tx, posthaste.Event{
		Type:        orderConfirmedV1.String(),
		AggregateID: id,
		Payload:     OrderConfirmed{OrderID: id, Total: total},
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}
