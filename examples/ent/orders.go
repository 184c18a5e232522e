// Package orders writes a change and its event in one transaction of ent.
package orders

import (
	"context"
	"fmt"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/examples/ent/ent"
	"posthaste.dev/posthaste/examples/ent/ent/order"
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
	client *ent.Client
	writer *posthaste.Writer
}

// New is called once, when the service starts. An empty table is posthaste.DefaultTable.
func New(client *ent.Client, table string) (*Orders, error) {
	types, err := posthaste.NewRegistry(orderConfirmedV1)
	if err != nil {
		return nil, err
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: table})
	if err != nil {
		return nil, err
	}
	return &Orders{client: client, writer: writer}, nil
}

// Confirm makes a new order a confirmed one and writes the event, in one transaction.
func (o *Orders) Confirm(ctx context.Context, id string) error {
	tx, err := o.client.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // takes both back on every way out but the last; does nothing after the commit

	// The update locks the order's row until the end, which keeps the events of an order in order.
	confirmed, err := tx.Order.UpdateOneID(id).Where(order.Status("new")).SetStatus("confirmed").Save(ctx)
	if ent.IsNotFound(err) {
		return fmt.Errorf("confirm order %s: not there, or not new", id)
	}
	if err != nil {
		return err
	}
	// The *ent.Tx itself is the transaction, thanks to the feature sql/execquery (see generate.go). A *ent.Client does
	// not compile here.
	err = o.writer.WriteSQL(ctx, tx, posthaste.Event{
		Type:        orderConfirmedV1.String(),
		AggregateID: id,
		Payload:     OrderConfirmed{OrderID: id, Total: confirmed.Total},
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}
