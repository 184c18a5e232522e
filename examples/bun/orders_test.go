package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	_ "github.com/uptrace/bun/driver/pgdriver" // the driver "pg", bun's own

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/examples/internal/suite"
	"posthaste.dev/posthaste/posthastetest"
)

func TestMain(m *testing.M) { suite.Main(m) }

var drivers = []string{"pgx", "pg"}

func open(t *testing.T, driver string, outbox *posthastetest.Outbox) *Orders {
	t.Helper()
	url := outbox.URL
	if driver == "pg" { // it takes a search_path for the name of one schema
		url = strings.Replace(url, "%2Cpublic", "", 1)
	}
	pool, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	orders, err := New(bun.NewDB(pool, pgdialect.New()), outbox.Table)
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

func TestOrders(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			suite.Run(t,
				func(t *testing.T, outbox *posthastetest.Outbox) suite.Orders { return open(t, driver, outbox) })
		})
	}
}

func TestOnlyTransactions(t *testing.T) {
	suite.Pool[*bun.DB](t)
	suite.Pool[bun.Conn](t)
}

// The mistake that compiles says how to mend it, and writes nothing.
func TestWrongTx(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			outbox := posthastetest.New(t)
			orders := open(t, driver, outbox)
			err := orders.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return orders.writer.WriteSQL(ctx, tx, posthaste.Event{
					Type: "order.confirmed.v1", AggregateID: "o-1", Payload: OrderConfirmed{}})
			})
			if err == nil || !strings.Contains(err.Error(), "of a bun.Tx pass its field Tx") {
				t.Errorf("a bun.Tx passed itself: %v", err)
			}
			outbox.RequireNone(t, outbox.Pool)
		})
	}
}

// The errors that a service may want to know are known with either driver.
func TestDuplicate(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			orders := open(t, driver, posthastetest.New(t))
			event := posthaste.Event{
				Type: "order.confirmed.v1", AggregateID: "o-1", ID: uuid.Must(uuid.NewV7()), Payload: OrderConfirmed{}}
			write := func() error {
				return orders.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
					return orders.writer.WriteSQL(ctx, tx.Tx, event)
				})
			}
			if first, second := write(), write(); first != nil || !errors.Is(second, posthaste.ErrDuplicateEvent) {
				t.Errorf("first %v, second %v", first, second)
			}
		})
	}
}

func Example() {
	ctx := context.Background()
	outbox := suite.Open(ctx)
	defer outbox.Close()

	pool, err := sql.Open("pgx", outbox.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	orders, err := New(bun.NewDB(pool, pgdialect.New()), outbox.Table)
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
