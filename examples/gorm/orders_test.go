package orders

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"strings"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/examples/internal/suite"
	"posthaste.dev/posthaste/posthastetest"
)

func TestMain(m *testing.M) { suite.Main(m) }

func open(t *testing.T, outbox *posthastetest.Outbox, config gorm.Config) *Orders {
	t.Helper()
	config.Logger = logger.Discard
	db, err := gorm.Open(postgres.Open(outbox.URL), &config)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	orders, err := New(db, outbox.Table)
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

func TestOrders(t *testing.T) {
	for name, config := range map[string]gorm.Config{
		"as it comes":         {},
		"prepared statements": {PrepareStmt: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Run(t,
				func(t *testing.T, outbox *posthastetest.Outbox) suite.Orders { return open(t, outbox, config) })
		})
	}
}

// A transaction inside another is a savepoint: what it wrote goes when it fails, though the outer one commits.
func TestNested(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	orders := open(t, outbox, gorm.Config{})
	event := func(id string) posthaste.Event {
		return posthaste.Event{Type: "order.confirmed.v1", AggregateID: id, Payload: OrderConfirmed{OrderID: id}}
	}
	err := orders.db.Transaction(func(outer *gorm.DB) error {
		inner := outer.Transaction(func(inner *gorm.DB) error {
			if err := orders.write(t.Context(), inner, event("inner")); err != nil {
				return err
			}
			return sql.ErrNoRows
		})
		if inner != sql.ErrNoRows {
			return inner
		}
		return orders.write(t.Context(), outer, event("outer"))
	})
	if err != nil {
		t.Fatal(err)
	}
	outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{Key: "outer"})
	outbox.RequireNone(t, outbox.Pool, posthastetest.Want{Key: "inner"})
}

func TestOnlyTransactions(t *testing.T) {
	t.Parallel()
	suite.Pool[*gorm.DB](t)
	suite.Pool[*gorm.PreparedStmtDB](t)
	outbox := posthastetest.New(t)
	for _, config := range []gorm.Config{{}, {PrepareStmt: true}} {
		orders := open(t, outbox, config)
		err := orders.write(t.Context(), orders.db, posthaste.Event{
			Type: "order.confirmed.v1", AggregateID: "o-1", Payload: OrderConfirmed{}})
		if err == nil || !strings.Contains(err.Error(), "outside of a transaction") {
			t.Errorf("through the pool: %v", err)
		}
	}
	outbox.RequireNone(t, outbox.Pool)
}

func Example() {
	ctx := context.Background()
	outbox := suite.Open(ctx)
	defer outbox.Close()

	db, err := gorm.Open(postgres.Open(outbox.URL))
	if err != nil {
		log.Fatal(err)
	}
	orders, err := New(db, outbox.Table)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(orders.Confirm(ctx, "o-1"))
	fmt.Println(orders.Confirm(ctx, "o-1"))
	suite.Print(ctx, outbox)
	// Output:
	// <nil>
	// confirm order o-1: not there, or not new
	// order.confirmed.v1 to order-service.order.confirmed: order o-1, total 19.90
}
