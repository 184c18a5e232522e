package orders

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste/examples/internal/suite"
	"posthaste.dev/posthaste/posthastetest"
)

func TestMain(m *testing.M) { suite.Main(m) }

func TestPool(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T, outbox *posthastetest.Outbox) suite.Orders {
		orders, err := New(outbox.Pool, outbox.Table)
		if err != nil {
			t.Fatal(err)
		}
		return orders
	})
}

// perCall opens a connection for each transaction: one connection is for one goroutine at a time.
type perCall struct{ outbox *posthastetest.Outbox }

func (c perCall) Confirm(ctx context.Context, id string) error {
	conn, err := pgx.Connect(ctx, c.outbox.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	orders, err := New(conn, c.outbox.Table)
	if err != nil {
		return err
	}
	return orders.Confirm(ctx, id)
}

func TestConnection(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(_ *testing.T, outbox *posthastetest.Outbox) suite.Orders { return perCall{outbox} })
}

func TestOnlyTransactions(t *testing.T) {
	suite.Pool[*pgxpool.Pool](t)
	suite.Pool[*pgxpool.Conn](t)
	suite.Pool[*pgx.Conn](t)
}

func Example() {
	ctx := context.Background()
	outbox := suite.Open(ctx)
	defer outbox.Close()

	pool, err := pgxpool.New(ctx, outbox.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	orders, err := New(pool, outbox.Table)
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
