// Package orders writes a change and its event in one transaction of GORM.
package orders

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"posthaste.dev/posthaste"
)

// Order is a row of the table orders.
type Order struct {
	ID     string
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
	db     *gorm.DB
	writer *posthaste.Writer
}

// New is called once, when the service starts. An empty table is posthaste.DefaultTable.
func New(db *gorm.DB, table string) (*Orders, error) {
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

// Confirm makes a new order a confirmed one and writes the event. Transaction commits when the function returns nil;
// after an error, or a panic, it rolls both back.
func (o *Orders) Confirm(ctx context.Context, id string) error {
	return o.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order := Order{ID: id}
		// The update locks the order's row until the end, which keeps the events of an order in order.
		update := tx.Model(&order).Clauses(clause.Returning{}).Where("status = ?", "new").Update("status", "confirmed")
		if update.Error != nil {
			return update.Error
		}
		if update.RowsAffected == 0 {
			return fmt.Errorf("confirm order %s: not there, or not new", id)
		}
		return o.write(ctx, tx, posthaste.Event{
			Type:        orderConfirmedV1.String(),
			AggregateID: id,
			Payload:     OrderConfirmed{OrderID: id, Total: order.Total},
		})
	})
}

// write hands on the transaction that stands behind a *gorm.DB: a *sql.Tx, or GORM's wrapper of one where statements
// are prepared. Whether there is one the compiler can't tell, as GORM has one type for transaction and pool; a pool has
// no Rollback and is refused here.
func (o *Orders) write(ctx context.Context, db *gorm.DB, events ...posthaste.Event) error {
	tx, ok := db.Statement.ConnPool.(posthaste.SQLTx)
	if !ok {
		return errors.New("write events: outside of a transaction; call it with the *gorm.DB that Transaction gives")
	}
	return o.writer.WriteSQL(ctx, tx, events...)
}
