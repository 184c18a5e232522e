//go:build unix

package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste"
)

const (
	writers   = 8
	orders    = 100
	eventsMax = 4   // a transaction has 1 to so many
	rollBacks = 0.1 // of the transactions
)

// orderChanged is the payload of both event types. Number counts the events of an order, without gaps: what was rolled
// back gives its numbers back.
type orderChanged struct {
	OrderID string `json:"order_id"`
	Number  int    `json:"number"`
	Total   string `json:"total"`
}

// service is the order service. It knows nothing of relays.
type service struct {
	db     *pgxpool.Pool
	schema string
	writer *posthaste.Writer
	types  []posthaste.EventType
	topics []string
	ledger ledger
	began  time.Time     // of the first run
	took   time.Duration // until it ended
}

func newService(db *pgxpool.Pool, name, schema, table string) (*service, error) {
	registry, err := posthaste.NewRegistry(
		posthaste.EventType{Service: name, Aggregate: "Order", Name: "order.changed", Version: 1},
		posthaste.EventType{Service: name, Aggregate: "Order", Name: "order.priced", Version: 1},
	)
	if err != nil {
		return nil, err
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: registry, Table: table})
	if err != nil {
		return nil, err
	}
	s := &service{db: db, schema: schema, writer: writer, types: registry.Types(), ledger: newLedger()}
	for _, t := range s.types {
		s.topics = append(s.topics, t.Topic)
	}
	return s, nil
}

// prepare makes the service's own table, with a row for each order.
func (s *service) prepare(ctx context.Context) error {
	statements := []string{
		`create table ` + s.schema + `.orders (id text primary key, events integer not null default 0)`,
		fmt.Sprintf(`insert into %s.orders select 'order-' || n from generate_series(0, %d) n`, s.schema, orders-1),
	}
	if s.schema != "public" {
		statements = append([]string{`create schema ` + s.schema}, statements...)
	}
	for _, statement := range statements {
		if _, err := s.db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the orders: %w", err)
		}
	}
	return nil
}

// run writes until the context ends, and commits about so many events a second. Transactions that have begun go
// through, so that no commit is left with an unknown outcome.
func (s *service) run(ctx context.Context, rate int) error {
	if s.began.IsZero() {
		s.began = time.Now()
		defer func() { s.took = time.Since(s.began) }()
	}
	const mean = (1 + eventsMax) / 2. * (1 - rollBacks) // events that a transaction commits
	every := float64(time.Second) * writers * mean / float64(rate)
	errs := make([]error, writers)
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			due := time.Now()
			for errs[n] == nil {
				due = due.Add(time.Duration(rand.ExpFloat64() * every))
				if pause(ctx, time.Until(due)) != nil {
					return
				}
				errs[n] = s.change(context.WithoutCancel(ctx))
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// place writes the first event of every order, all in one transaction.
func (s *service) place(ctx context.Context) error {
	var wrote []written
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for n := range orders {
			events, err := s.update(ctx, tx, orderID(n), 1)
			if err != nil {
				return err
			}
			wrote = append(wrote, events...)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("place orders: %w", err)
	}
	s.ledger.commit(wrote)
	return nil
}

var errChangedMind = errors.New("the customer changed their mind")

// change is a handler as a service has it: the business change and its events in one transaction, some of which are
// rolled back.
func (s *service) change(ctx context.Context) (err error) {
	// Some orders change far more often than others: evenly spread keys would hide a relay that mixes them up.
	order := orderID(int(rand.ExpFloat64() * orders / 8))
	var wrote []written
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		wrote, err = s.update(ctx, tx, order, 1+rand.IntN(eventsMax))
		if err == nil && rand.Float64() < rollBacks {
			return errChangedMind
		}
		return err
	})
	switch {
	case errors.Is(err, errChangedMind):
		s.ledger.rollBack(wrote)
		return nil
	case err == nil:
		s.ledger.commit(wrote)
	}
	return err
}

func orderID(n int) string { return fmt.Sprintf("order-%d", n%orders) }

// update changes an order and writes n events of it. The row lock that the change takes keeps the events of one
// order in order.
func (s *service) update(ctx context.Context, tx pgx.Tx, order string, n int) (wrote []written, err error) {
	var last int
	err = tx.QueryRow(ctx, `
update `+s.schema+`.orders set events = events + $2 where id = $1 returning events`, order, n).Scan(&last)
	if err != nil {
		return nil, err
	}
	var events []posthaste.Event
	for number := last - n + 1; number <= last; number++ {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		t := s.types[rand.IntN(len(s.types))]
		events = append(events, posthaste.Event{ID: id, Type: t.String(), AggregateID: order,
			Payload: orderChanged{order, number, fmt.Sprintf("%d.90", rand.IntN(100))}})
		wrote = append(wrote, written{id: id.String(), topic: t.Topic, key: order, number: number})
	}
	return wrote, s.writer.Write(ctx, tx, events...)
}

// written is an event that the service wrote.
type written struct {
	id, topic, key string
	number         int // of its order
	committed      time.Time
}

// ledger is the service's own word on what it did. It may be used concurrently.
type ledger struct {
	mu         sync.Mutex
	committed  []written
	rolledBack map[string]bool // ids
	commits    int
	rollBacks  int
}

func newLedger() ledger { return ledger{rolledBack: map[string]bool{}} }

func (l *ledger) commit(events []written) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		e.committed = now
		l.committed = append(l.committed, e)
	}
	l.commits++
}

func (l *ledger) rollBack(events []written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.rolledBack[e.id] = true
	}
	l.rollBacks++
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.committed)
}
