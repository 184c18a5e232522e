package posthaste_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/posthastetest"
)

var orderTypes = []posthaste.EventType{
	{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1},
	{Service: "order-service", Aggregate: "Order", Name: "order.cancelled", Version: 1, TopicPerAggregate: true},
}

func newWriter(t *testing.T, outbox *posthastetest.Outbox, change ...func(*posthaste.Config)) *posthaste.Writer {
	t.Helper()
	types, err := posthaste.NewRegistry(orderTypes...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := posthaste.Config{Types: types, Table: outbox.Table}
	for _, c := range change {
		c(&cfg)
	}
	w, err := posthaste.NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func strict(c *posthaste.Config)  { c.Strict = true }
func headers(c *posthaste.Config) { c.Headers = true }

func confirmed(key string) posthaste.Event {
	return posthaste.Event{Type: "order.confirmed.v1", AggregateID: key, Payload: json.RawMessage(`{}`)}
}

// way is one of the ways to a transaction. Each has the same suite.
type way struct {
	name string
	// write runs one Write in a transaction and commits it, or rolls it back on an error.
	write writeFunc
}

type writeFunc func(ctx context.Context, o *posthastetest.Outbox, w *posthaste.Writer, events ...posthaste.Event) error

func ways() (all []way) {
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, // the last two are for poolers
	}
	for _, mode := range modes {
		all = append(all, way{"pgx, " + mode.String(), byPgx(mode)}, way{"database/sql, " + mode.String(), bySQL(mode)})
	}
	return all
}

func byPgx(mode pgx.QueryExecMode) writeFunc {
	return func(ctx context.Context, o *posthastetest.Outbox, w *posthaste.Writer, events ...posthaste.Event) error {
		config := o.Pool.Config().ConnConfig.Copy()
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return w.Write(ctx, tx, events...) })
	}
}

func bySQL(mode pgx.QueryExecMode) writeFunc {
	return func(ctx context.Context, o *posthastetest.Outbox, w *posthaste.Writer, events ...posthaste.Event) error {
		config := o.Pool.Config().ConnConfig.Copy()
		config.DefaultQueryExecMode = mode
		db := stdlib.OpenDB(*config)
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := w.WriteSQL(ctx, tx, events...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}

// write is the plain way, where it does not matter which.
func write(ctx context.Context, o *posthastetest.Outbox, w *posthaste.Writer, events ...posthaste.Event) error {
	return pgx.BeginFunc(ctx, o.Pool, func(tx pgx.Tx) error { return w.Write(ctx, tx, events...) })
}

// checkRows: the events are there, and their ids ascend in the order in which they were given.
func checkRows(t *testing.T, outbox *posthastetest.Outbox, events []posthaste.Event) {
	t.Helper()
	rows, err := outbox.Pool.Query(t.Context(),
		`select event_id::text from `+outbox.Table+` order by id desc limit $1`, len(events))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if at := len(got) - 1 - i; at < 0 || got[at] != e.ID.String() {
			t.Fatalf("by id, event %d of %d is not where it was given", i, len(events))
		}
	}
}

type row struct {
	aggregateType, aggregateID, eventType, payload, topic, key, headers string
}

func readRow(t *testing.T, outbox *posthastetest.Outbox, id uuid.UUID) (r row) {
	t.Helper()
	err := outbox.Pool.QueryRow(t.Context(), `
		select aggregate_type, aggregate_id, event_type, payload::text, topic, partition_key, headers::text
		from `+outbox.Table+` where event_id = $1`, id).
		Scan(&r.aggregateType, &r.aggregateID, &r.eventType, &r.payload, &r.topic, &r.key, &r.headers)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func timeLimit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// begin opens a transaction that is rolled back at the end of the test unless it was ended before.
func begin(t *testing.T, outbox *posthastetest.Outbox) pgx.Tx {
	t.Helper()
	tx, err := outbox.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	})
	return tx
}

func exec(t *testing.T, outbox *posthastetest.Outbox, query string) {
	t.Helper()
	// Cleanups use it too, when the test's context has ended.
	if _, err := outbox.Pool.Exec(context.Background(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
