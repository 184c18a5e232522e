package orders

import (
	"context"
	"fmt"
	"log"
	"testing"

	"posthaste.dev/posthaste/examples/internal/suite"
	"posthaste.dev/posthaste/examples/sqlc/db"
	"posthaste.dev/posthaste/posthastetest"
)

func TestMain(m *testing.M) { suite.Main(m) }

func TestOrders(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T, outbox *posthastetest.Outbox) suite.Orders {
		orders, err := New(outbox.Pool, outbox.Table)
		if err != nil {
			t.Fatal(err)
		}
		return orders
	})
}

func TestOnlyTransactions(t *testing.T) {
	suite.Pool[db.DBTX](t)
	suite.Pool[*db.Queries](t)
}

func Example() {
	ctx := context.Background()
	outbox := suite.Open(ctx)
	defer outbox.Close()

	orders, err := New(outbox.Pool, outbox.Table)
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
