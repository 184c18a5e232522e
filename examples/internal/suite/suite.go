// Package suite is what all recipes are held to: the event exists if and only if the transaction of its change
// committed.
package suite

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/posthastetest"
)

// Orders is what every recipe makes: a service's handler for one business change.
type Orders interface {
	// Confirm makes the new order a confirmed one and writes order.confirmed.v1, or does neither.
	Confirm(ctx context.Context, id string) error
}

// The orders of the service. Those that want a late failure have it at the commit, when change and event are both
// written: nothing but the commit can save the event then.
const ordersSQL = `
create table orders (id text primary key, status text not null default 'new', total text not null);
insert into orders (id, total) values ('o-1', '19.90'), ('o-2', '5.00'), ('o-3', '7.10'), ('late', '1.00'),
    ('large', repeat('9', 2000000));
create function fail_late() returns trigger language plpgsql as $$
begin
    raise exception 'order % fails at the commit', new.id;
end $$;
create constraint trigger fail_late after update on orders deferrable initially deferred
    for each row when (new.id = 'late') execute function fail_late();`

// Run holds a recipe to its promise, on a database of its own. The orders are made by open, over a table named orders.
func Run(t *testing.T, open func(t *testing.T, outbox *posthastetest.Outbox) Orders) {
	t.Helper()
	outbox := posthastetest.New(t)
	if _, err := outbox.Pool.Exec(t.Context(), ordersSQL); err != nil {
		t.Fatal(err)
	}
	orders := open(t, outbox)
	for _, c := range []struct {
		name, id string
		want     string // of the order, afterwards; the event is there where it is confirmed
	}{
		{"a commit keeps both", "o-1", "confirmed"},
		{"a commit that fails takes both back", "late", "new"},
		{"a refused event takes the change back", "large", "new"},
		{"no order, no event", "none", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := orders.Confirm(t.Context(), c.id)
			if failed := err != nil; failed != (c.want != "confirmed") {
				t.Errorf("Confirm returned %v", err)
			}
			check(t, outbox, c.id, c.want)
		})
	}
	t.Run("one of many at once", func(t *testing.T) {
		var group sync.WaitGroup
		var confirmed atomic.Int32
		for range 8 {
			group.Go(func() {
				if orders.Confirm(t.Context(), "o-2") == nil {
					confirmed.Add(1)
				}
			})
		}
		group.Wait()
		if n := confirmed.Load(); n != 1 {
			t.Errorf("%d of 8 say that they confirmed it", n)
		}
		check(t, outbox, "o-2", "confirmed")
	})
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if orders.Confirm(ctx, "o-3") == nil {
			t.Error("Confirm succeeds")
		}
		check(t, outbox, "o-3", "new")
	})
}

// check: the order has the status, and exactly one event if it is confirmed, else none.
func check(t *testing.T, outbox *posthastetest.Outbox, id, want string) {
	t.Helper()
	var status string
	var events int
	err := outbox.Pool.QueryRow(t.Context(), `
		select coalesce((select status from orders where id = $1), ''),
		       (select count(*) from outbox_event where partition_key = $1)`, id).Scan(&status, &events)
	if err != nil {
		t.Fatal(err)
	}
	if status != want {
		t.Errorf("order %s is %q, want %q", id, status, want)
	}
	if want != "confirmed" {
		outbox.RequireNone(t, outbox.Pool, posthastetest.Want{Key: id})
		return
	}
	outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{
		Type: "order.confirmed.v1", AggregateID: id, Topic: "order-service.order.confirmed",
		Payload: map[string]any{"order_id": id}})
	if events != 1 {
		t.Errorf("order %s has %d events", id, events)
	}
}

// Pool fails the test if a Writer would take it for a transaction. The compiler has the same rule: what does not
// implement the interfaces can't be passed.
func Pool[T any](t *testing.T) {
	t.Helper()
	pool := reflect.TypeFor[T]()
	for _, tx := range []reflect.Type{reflect.TypeFor[posthaste.Tx](), reflect.TypeFor[posthaste.SQLTx]()} {
		if pool.Implements(tx) {
			t.Errorf("%s passes for a %s: an event written through it would survive a roll-back", pool, tx)
		}
	}
}

// Open makes an outbox and a table with the new order o-1, for an Example. The caller closes it.
func Open(ctx context.Context) *posthastetest.Outbox {
	outbox, err := posthastetest.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := outbox.Pool.Exec(ctx, ordersSQL); err != nil {
		log.Fatal(err)
	}
	return outbox
}

// Print prints what the outbox holds: a line for each event.
func Print(ctx context.Context, outbox *posthastetest.Outbox) {
	var events []string
	err := outbox.Pool.QueryRow(ctx, `
		select array_agg(format('%s to %s: order %s, total %s',
		                        event_type, topic, payload->>'order_id', payload->>'total_amount')
		                 order by id) from outbox_event`).Scan(&events)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Join(events, "\n"))
}

// Main runs the tests of a package. It leaves the examples out under -short, which promises to need no server.
func Main(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("test.skip", "^Example"); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}
