package orders_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste.dev/posthaste"
	orders "posthaste.dev/posthaste/examples/testing"
)

// The real one fits where the stand-in does.
var _ orders.EventWriter = (*posthaste.Writer)(nil)

// written is a stand-in for the Writer: it keeps what it is given.
type written struct {
	events []posthaste.Event
	err    error
}

func (w *written) Write(_ context.Context, _ posthaste.Tx, events ...posthaste.Event) error {
	w.events = append(w.events, events...)
	return w.err
}

// changes is a stand-in for the transaction: its statements change so many rows.
type changes int

func (n changes) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.NewCommandTag([]string{"UPDATE 0", "UPDATE 1"}[n]), nil
}

func (changes) Rollback(context.Context) error { return nil }

func TestConfirmWritesItsEvent(t *testing.T) {
	var w written
	if err := (orders.Orders{Events: &w}).Confirm(t.Context(), changes(1), "o-1"); err != nil {
		t.Fatal(err)
	}
	if len(w.events) != 1 || w.events[0].AggregateID != "o-1" ||
		w.events[0].Payload != (orders.Confirmed{OrderID: "o-1"}) {
		t.Errorf("wrote %+v", w.events)
	}
	// A stand-in takes any event. That the type is one of the service's is worth a line.
	types, err := orders.Types()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := types.Lookup(w.events[0].Type); !ok {
		t.Errorf("type %s is not registered", w.events[0].Type)
	}
}

func TestConfirmWithoutOrder(t *testing.T) {
	var w written
	if err := (orders.Orders{Events: &w}).Confirm(t.Context(), changes(0), "o-1"); err == nil || len(w.events) > 0 {
		t.Errorf("an order that is not there: %v, wrote %+v", err, w.events)
	}
}

// Confirm must hand the error on, or its caller would commit the change without the event.
func TestConfirmHandsTheErrorOn(t *testing.T) {
	refused := errors.New("refused")
	service := orders.Orders{Events: &written{err: refused}}
	if err := service.Confirm(t.Context(), changes(1), "o-1"); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
