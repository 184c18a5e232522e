package orders

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"posthaste.dev/posthaste/examples/internal/suite"
	"posthaste.dev/posthaste/posthastetest"
)

func TestMain(m *testing.M) { suite.Main(m) }

func TestDrivers(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			suite.Run(t, func(t *testing.T, outbox *posthastetest.Outbox) suite.Orders {
				db, err := sql.Open(driver, outbox.URL)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				orders, err := New(db, outbox.Table)
				if err != nil {
					t.Fatal(err)
				}
				return orders
			})
		})
	}
}

func TestOnlyTransactions(t *testing.T) {
	suite.Pool[*sql.DB](t)
	suite.Pool[*sql.Conn](t)
}

func Example() {
	ctx := context.Background()
	outbox := suite.Open(ctx)
	defer outbox.Close()

	db, err := sql.Open("postgres", outbox.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
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
