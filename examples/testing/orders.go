// Package orders is a part of a service, written so that it can be tested in two ways: fast, with a stand-in for the
// Writer (mock_test.go), and against PostgreSQL, with posthastetest (postgres_test.go).
package orders

import (
	"context"
	"fmt"

	"posthaste.dev/posthaste"
)

// Types are the events of the service, for its Writer.
func Types() (*posthaste.Registry, error) { return posthaste.NewRegistry(confirmedV1) }

var confirmedV1 = posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1}

// Confirmed is what the event says; the writer adds id, type, time and aggregate.
type Confirmed struct {
	OrderID string `json:"order_id"`
}

// EventWriter is all that this package needs of a *posthaste.Writer. It stands here, where it is used.
type EventWriter interface {
	Write(ctx context.Context, tx posthaste.Tx, events ...posthaste.Event) error
}

// Orders confirms orders.
type Orders struct{ Events EventWriter }

// Confirm works in the transaction of its caller, who commits it or, after an error, rolls it back.
func (o Orders) Confirm(ctx context.Context, tx posthaste.Tx, id string) error {
	tag, err := tx.Exec(ctx, `update orders set status = 'confirmed' where id = $1 and status = 'new'`, id)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("confirm order %s: not there, or not new", id)
	}
	return o.Events.Write(ctx, tx, posthaste.Event{
		Type:        confirmedV1.String(),
		AggregateID: id,
		Payload:     Confirmed{OrderID: id},
	})
}
