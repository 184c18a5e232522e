package orders_test

import (
	"testing"

	"posthaste.dev/posthaste"
	orders "posthaste.dev/posthaste/examples/testing"
	"posthaste.dev/posthaste/posthastetest"
)

// New gives the test an outbox of its own, in a schema where the service's tables can stand too. The server is the one
// of POSTHASTE_TEST_DATABASE_URL.
func open(t *testing.T) (*posthastetest.Outbox, orders.Orders) {
	t.Helper()
	outbox := posthastetest.New(t)
	_, err := outbox.Pool.Exec(t.Context(), `
		create table orders (id text primary key, status text not null default 'new');
		insert into orders (id) values ('o-1')`)
	if err != nil {
		t.Fatal(err)
	}
	types, err := orders.Types()
	if err != nil {
		t.Fatal(err)
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: outbox.Table})
	if err != nil {
		t.Fatal(err)
	}
	return outbox, orders.Orders{Events: writer}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	outbox, service := open(t)
	tx, err := outbox.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := service.Confirm(t.Context(), tx, "o-1"); err != nil {
		t.Fatal(err)
	}
	confirmed := posthastetest.Want{
		Type:    "order.confirmed.v1",
		Key:     "o-1",
		Topic:   "order-service.order.confirmed",
		Payload: orders.Confirmed{OrderID: "o-1"},
	}
	outbox.RequireWritten(t, tx, confirmed) // seen by the transaction itself,
	outbox.RequireNone(t, outbox.Pool)      // and by nobody else until it commits
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	outbox.RequireWritten(t, outbox.Pool, confirmed)
}

func TestRollback(t *testing.T) {
	t.Parallel()
	outbox, service := open(t)
	tx, err := outbox.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Confirm(t.Context(), tx, "o-1"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	outbox.RequireNone(t, outbox.Pool)
}
