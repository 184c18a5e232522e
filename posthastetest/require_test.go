package posthastetest

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"posthaste.dev/posthaste"
)

// recorder takes the place of a test that is expected to fail.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// failureOf returns the message with which an assertion failed, or nothing.
func failureOf(t *testing.T, assert func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert(r)
	}()
	<-done
	return r.failure
}

var (
	firstID = uuid.MustParse("0199a3c1-7d5e-7b1c-9d39-2f4e6a8b0c1d")
	written = []posthaste.Event{
		{Type: "order.created.v1", AggregateID: "o-1", ID: firstID,
			Payload: json.RawMessage(`{"total":1.10,"lines":[{"sku":"a","n":2},{"sku":"b"}]}`),
			Headers: map[string]string{"tenant": "x", "region": "eu"}},
		{Type: "order.created.v1", AggregateID: "o-2", Key: "customer-7", Payload: json.RawMessage(`{"total":2}`)},
		{Type: "order.cancelled.v1", AggregateID: "o-1", Payload: json.RawMessage(`{}`)},
	}
)

func newWriter(t *testing.T, o *Outbox) *posthaste.Writer {
	t.Helper()
	types, err := posthaste.NewRegistry(
		posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.created", Version: 1},
		posthaste.EventType{Service: "order-service", Aggregate: "Order", Name: "order.cancelled", Version: 1},
	)
	if err != nil {
		t.Fatal(err)
	}
	w, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: o.Table, Headers: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The assertions see into an open transaction, by either library, and fail when they should.
func TestRequire(t *testing.T) {
	t.Parallel()
	o := New(t, Headers())
	w := newWriter(t, o)
	ctx := t.Context()

	tx, err := o.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if err := w.Write(ctx, tx, written...); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sqlTx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sqlTx.Rollback()
	if err := w.WriteSQL(ctx, sqlTx, written[1:]...); err != nil {
		t.Fatal(err)
	}

	created := Want{Type: "order.created.v1"}
	for _, c := range []struct {
		want    []Want
		failure string // a part of the message
	}{
		{nil, ""},
		{[]Want{{}}, ""},
		{[]Want{created, created, {Type: "order.cancelled.v1"}}, ""},
		// The general want comes first and must leave the only fitting event to the special one.
		{[]Want{{}, created, {Key: "customer-7"}}, ""},
		{[]Want{{AggregateID: "o-1", Key: "o-1", Topic: "order-service.order.created", ID: firstID}}, ""},
		{[]Want{{Payload: map[string]any{"total": 1.1}}}, ""},
		{[]Want{{Payload: json.RawMessage(`{"aggregate_id":"o-1","lines":[{"sku":"b"}]}`)}}, ""},
		{[]Want{{Payload: []byte(`{"total":2.0}`)}}, ""},
		{[]Want{{Headers: map[string]string{"tenant": "x"}}}, ""},

		{[]Want{created, created, created},
			"too few events, each may serve once, like {type order.created.v1}; it holds:"},
		{[]Want{{}, {}, {}, {}}, "too few events, each may serve once, like {any}"},
		{[]Want{created, {Type: "order.shipped.v1"}}, "no event like {type order.shipped.v1}; it holds:"},
		{[]Want{{AggregateID: "o-3"}}, "no event like {aggregate id o-3}"},
		{[]Want{{Key: "o-2"}}, "no event like {key o-2}"},
		{[]Want{{Topic: "orders"}}, "no event like {topic orders}"},
		{[]Want{{ID: uuid.Max}}, "no event like {id ffffffff-ffff-ffff-ffff-ffffffffffff}"},
		{[]Want{{Payload: map[string]any{"total": 1.11}}}, `no event like {payload containing {"total":1.11}}`},
		{[]Want{{Payload: []byte(`{"lines":[{"sku":"c"}]}`)}}, `{"sku":"c"}`},
		{[]Want{{Headers: map[string]string{"tenant": "y"}}}, `no event like {headers containing {"tenant":"y"}}`},
		{[]Want{{Payload: func() {}}}, "marshal what is wanted"},
	} {
		failure := failureOf(t, func(t testing.TB) { o.RequireWritten(t, tx, c.want...) })
		if c.failure == "" && failure != "" || !strings.Contains(failure, c.failure) {
			t.Errorf("RequireWritten(%v) fails with %q, want %q", c.want, failure, c.failure)
		}
		const line = `order.created.v1, key "customer-7", topic order-service.order.created, {`
		if strings.Contains(failure, "it holds") && !strings.Contains(failure, line) {
			t.Errorf("the listing lacks an event: %s", failure)
		}
	}

	for _, c := range []struct {
		name   string
		assert func(t testing.TB)
		fails  bool
	}{
		{"sql sees its own", func(t testing.TB) { o.RequireWrittenSQL(t, sqlTx, Want{Key: "customer-7"}) }, false},
		{"sql does not see the other's", func(t testing.TB) { o.RequireWrittenSQL(t, sqlTx, Want{ID: firstID}) }, true},
		{"none of these", func(t testing.TB) { o.RequireNone(t, tx, Want{Key: "o-3"}, Want{Type: "x"}) }, false},
		{"one of these", func(t testing.TB) { o.RequireNone(t, tx, Want{Key: "o-3"}, created) }, true},
		{"none at all", func(t testing.TB) { o.RequireNone(t, o.Pool) }, false},
		{"some", func(t testing.TB) { o.RequireNone(t, tx) }, true},
		{"sql none of these", func(t testing.TB) { o.RequireNoneSQL(t, sqlTx, Want{ID: firstID}) }, false},
		{"sql some", func(t testing.TB) { o.RequireNoneSQL(t, sqlTx) }, true},
		{"nothing committed", func(t testing.TB) { o.RequireWritten(t, o.Pool, created) }, true},
	} {
		if failure := failureOf(t, c.assert); c.fails != (failure != "") {
			t.Errorf("%s: %q", c.name, failure)
		} else if c.name == "nothing committed" && !strings.Contains(failure, "it is empty as seen from here") {
			t.Errorf("%s: %q", c.name, failure)
		}
	}
}

// A statement that PostgreSQL refuses, here in a failed transaction, fails the test with the server's reason.
func TestRequireInAFailedTransaction(t *testing.T) {
	t.Parallel()
	o := New(t)
	tx, err := o.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `select 1/0`); err == nil {
		t.Fatal("no error")
	}
	failure := failureOf(t, func(t testing.TB) { o.RequireNone(t, tx) })
	if !strings.Contains(failure, "read outbox") || !strings.Contains(failure, "25P02") {
		t.Errorf("fails with %q", failure)
	}
}

func TestLongListsEnd(t *testing.T) {
	t.Parallel()
	o := New(t, Headers())
	w := newWriter(t, o)
	events := make([]posthaste.Event, 40)
	for i := range events {
		events[i] = posthaste.Event{Type: "order.created.v1", AggregateID: fmt.Sprint(i),
			Payload: map[string]string{"text": strings.Repeat("x", 10000)}}
	}
	err := pgx.BeginFunc(t.Context(), o.Pool, func(tx pgx.Tx) error { return w.Write(t.Context(), tx, events...) })
	if err != nil {
		t.Fatal(err)
	}
	failure := failureOf(t, func(t testing.TB) { o.RequireNone(t, o.Pool) })
	if len(failure) > 20000 || !strings.HasSuffix(failure, "and more") {
		t.Errorf("a message of %d bytes: %.200s ... %.100s", len(failure), failure, failure[max(0, len(failure)-100):])
	}
}
