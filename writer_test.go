package posthaste_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/posthastetest"
)

// What does not implement the interfaces can't be passed: the compiler uses the same rule.
func TestOnlyTransactionsAreAccepted(t *testing.T) {
	type embeds struct{ *sql.Tx } // as sqlx.Tx does
	pgxTx, sqlTx := reflect.TypeFor[posthaste.Tx](), reflect.TypeFor[posthaste.SQLTx]()
	for _, c := range []struct {
		typ      reflect.Type
		pgx, sql bool
	}{
		{reflect.TypeFor[pgx.Tx](), true, false},
		{reflect.TypeFor[*pgxpool.Tx](), true, false},
		{reflect.TypeFor[*pgxpool.Pool](), false, false},
		{reflect.TypeFor[*pgxpool.Conn](), false, false},
		{reflect.TypeFor[*pgx.Conn](), false, false},
		{reflect.TypeFor[*sql.Tx](), false, true},
		{reflect.TypeFor[embeds](), false, true},
		{reflect.TypeFor[*embeds](), false, true},
		{reflect.TypeFor[*sql.DB](), false, false},
		{reflect.TypeFor[*sql.Conn](), false, false},
	} {
		if got := c.typ.Implements(pgxTx); got != c.pgx {
			t.Errorf("%s is a Tx: %v", c.typ, got)
		}
		if got := c.typ.Implements(sqlTx); got != c.sql {
			t.Errorf("%s is an SQLTx: %v", c.typ, got)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	for _, server := range []string{testenv.DatabaseURL13, testenv.DatabaseURL, testenv.DatabaseURL18} {
		outbox := posthastetest.New(t, posthastetest.Database(testenv.Require(t, server)), posthastetest.Headers(),
			posthastetest.TableName(`Outbox-"Event"'s`))
		for _, strictly := range []bool{false, true} {
			w := newWriter(t, outbox, headers, func(c *posthaste.Config) { c.Strict = strictly })
			for _, way := range ways() {
				t.Run(fmt.Sprintf("%s, %s, strict %v", server, way.name, strictly), func(t *testing.T) {
					ctx := trace.ContextWithSpanContext(t.Context(), span)
					first := posthaste.Event{
						Type: "order.confirmed.v1", AggregateID: `o"1\`, Key: "ключ {1},NULL", ID: uuid.New(),
						Payload: json.RawMessage(`{"id":9007199254740993,"amt":1.10,"big":327267367867168100000,` +
							`"u":"\u2028 é","s":"\/","q":"'\"\\ {}"}`),
						Headers: map[string]string{"tenant": `a"b\`, "empty": ""},
					}
					events := []posthaste.Event{first}
					for i := range 20 {
						e := confirmed(fmt.Sprint(i % 3))
						e.Type = "order.cancelled.v1"
						e.ID = uuid.New() // not v7, so that their order says nothing of the ids'
						events = append(events, e)
					}
					if err := way.write(ctx, outbox, w, events...); err != nil {
						t.Fatal(err)
					}
					checkRows(t, outbox, events)
					row := readRow(t, outbox, first.ID)
					var payload, headers map[string]json.RawMessage
					if err := json.Unmarshal([]byte(row.payload), &payload); err != nil {
						t.Fatal(err)
					}
					if err := json.Unmarshal([]byte(row.headers), &headers); err != nil {
						t.Fatal(err)
					}
					if row.aggregateID != `o"1\` || row.key != "ключ {1},NULL" ||
						row.topic != "order-service.order.confirmed" ||
						row.aggregateType != "Order" || row.eventType != "order.confirmed.v1" {
						t.Errorf("row is %+v", row)
					}
					for name, want := range map[string]string{
						"event_id": `"` + first.ID.String() + `"`, "event_type": `"order.confirmed.v1"`,
						"aggregate_type": `"Order"`, "aggregate_id": `"o\"1\\"`,
						"id": `9007199254740993`, "amt": `1.10`, "big": `327267367867168100000`,
						"u": "\"\u2028 é\"", "s": `"/"`, "q": `"'\"\\ {}"`,
					} {
						if string(payload[name]) != want {
							t.Errorf("payload has %s: %s, want %s", name, payload[name], want)
						}
					}
					for name, want := range map[string]string{
						"tenant": `"a\"b\\"`, "empty": `""`,
						"traceparent": `"00-01000000000000000000000000000000-0200000000000000-01"`,
					} {
						if string(headers[name]) != want {
							t.Errorf("headers have %s: %s, want %s", name, headers[name], want)
						}
					}
				})
			}
		}
	}
}

// The seed's table has no column headers; the trace context is then left out.
func TestWriteWithoutHeadersColumn(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox)
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	for _, way := range ways() {
		if err := way.write(ctx, outbox, w, confirmed(way.name)); err != nil {
			t.Errorf("%s: %v", way.name, err)
		}
		outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{Key: way.name})
	}
}

// G1, on both ways: an event exists if and only if its transaction committed.
func TestEventSharesTheFateOfItsTransaction(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox)
	ctx := t.Context()
	boom := errors.New("business failed")

	err := pgx.BeginFunc(ctx, outbox.Pool, func(tx pgx.Tx) error {
		if err := w.Write(ctx, tx, confirmed("rolled back")); err != nil {
			return err
		}
		outbox.RequireWritten(t, tx, posthastetest.Want{Key: "rolled back"})
		outbox.RequireNone(t, outbox.Pool) // nobody else sees it yet
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	outbox.RequireNone(t, outbox.Pool)

	// A savepoint is a transaction too: what is rolled back to it is gone, what stands outside stays.
	err = pgx.BeginFunc(ctx, outbox.Pool, func(tx pgx.Tx) error {
		inner := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			return errors.Join(w.Write(ctx, savepoint, confirmed("inner")), boom)
		})
		if !errors.Is(inner, boom) {
			return inner
		}
		return w.Write(ctx, tx, confirmed("outer"))
	})
	if err != nil {
		t.Fatal(err)
	}
	outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{Key: "outer"})
	outbox.RequireNone(t, outbox.Pool, posthastetest.Want{Key: "inner"})

	db, err := sql.Open("pgx", outbox.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteSQL(ctx, tx, confirmed("sql")); err != nil {
		t.Fatal(err)
	}
	outbox.RequireWrittenSQL(t, tx, posthastetest.Want{Key: "sql"})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	outbox.RequireNoneSQL(t, db, posthastetest.Want{Key: "sql"})
}

// A refused call leaves the transaction usable, and writes none of its events.
func TestRefusalLeavesTheTransactionAlone(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox)
	ctx := t.Context()
	err := pgx.BeginFunc(ctx, outbox.Pool, func(tx pgx.Tx) error {
		bad := confirmed("bad")
		bad.Payload = json.RawMessage(`{"b":1,"a":2,"a":3,"sig":"0c3f"}`)
		if err := w.Write(ctx, tx, confirmed("good"), bad); !errors.Is(err, posthaste.ErrRepeatedKey) {
			t.Errorf("repeated key: %v", err)
		} else if !strings.Contains(err.Error(), "event 1 order.confirmed.v1: payload repeats a key") {
			t.Errorf("a repeated key is told as %v", err)
		}
		return errors.Join(w.Write(ctx, tx), w.Write(ctx, tx, confirmed("later")))
	})
	if err != nil {
		t.Fatal(err)
	}
	outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{Key: "later"})
	outbox.RequireNone(t, outbox.Pool, posthastetest.Want{Key: "good"}, posthastetest.Want{Key: "bad"})
}

// One call may have more events than any parameter list would hold.
func TestWriteManyInOrder(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox, strict)
	events := make([]posthaste.Event, 20000)
	for i := range events {
		events[i] = confirmed(fmt.Sprint(i))
		events[i].ID = uuid.New()
	}
	err := pgx.BeginFunc(t.Context(), outbox.Pool, func(tx pgx.Tx) error {
		if err := w.Write(t.Context(), tx, events...); err != nil {
			return err
		}
		var locks int
		err := tx.QueryRow(t.Context(),
			`select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`).Scan(&locks)
		if locks != 1024 {
			t.Errorf("20,000 keys took %d locks, want one for each of 1,024 stripes", locks)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, outbox, events)
}

func TestNewWriterTellsAllMistakesAtOnce(t *testing.T) {
	_, err := posthaste.NewWriter(posthaste.Config{Table: "outbox-event", MaxRecordBytes: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Types is missing", `"outbox-event" needs double quotes`, "MaxRecordBytes is -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}
