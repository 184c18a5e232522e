package orders

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"posthaste.dev/posthaste/examples/ent/ent"
	"posthaste.dev/posthaste/examples/internal/suite"
	"posthaste.dev/posthaste/posthastetest"
)

func TestMain(m *testing.M) { suite.Main(m) }

// open makes a client over a pool of database/sql.
func open(url string) (*ent.Client, error) {
	pool, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	return ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, pool))), nil
}

func TestOrders(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T, outbox *posthastetest.Outbox) suite.Orders {
		client, err := open(outbox.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		orders, err := New(client, outbox.Table)
		if err != nil {
			t.Fatal(err)
		}
		return orders
	})
}

func TestOnlyTransactions(t *testing.T) { suite.Pool[*ent.Client](t) }

func Example() {
	ctx := context.Background()
	outbox := suite.Open(ctx)
	defer outbox.Close()

	client, err := open(outbox.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	orders, err := New(client, outbox.Table)
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
