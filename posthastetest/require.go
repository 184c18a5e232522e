package posthastetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Want describes an event. What is left empty may be anything.
type Want struct {
	Type        string // event_type, such as "order.confirmed.v1"
	AggregateID string
	Key         string // partition_key
	Topic       string
	ID          uuid.UUID

	// Payload must be contained in the event's: members that are not named may be anything, at every level. Arrays
	// match if each of the wanted items is found (PostgreSQL's @>), numbers by value. A Go value, or raw JSON as
	// json.RawMessage or []byte.
	Payload any

	// Headers must be among the event's headers.
	Headers map[string]string
}

// Querier is what reads through pgx: pgx.Tx, *pgxpool.Pool, *pgx.Conn.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// SQLQuerier is what reads through database/sql: *sql.Tx, *sql.DB, *sql.Conn.
type SQLQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// RequireWritten fails the test unless db sees an event for each want, a different one for each. Given the transaction
// under test, it sees what that wrote before it commits; given the pool, what was committed. More events than wanted
// are no failure.
func (o *Outbox) RequireWritten(t testing.TB, db Querier, want ...Want) {
	t.Helper()
	o.requireWritten(t, viaPgx(db), want)
}

// RequireWrittenSQL is RequireWritten through database/sql.
func (o *Outbox) RequireWrittenSQL(t testing.TB, db SQLQuerier, want ...Want) {
	t.Helper()
	o.requireWritten(t, viaSQL(db), want)
}

// RequireNone fails the test if db sees an event like one of those given; without any, if it sees an event at all.
func (o *Outbox) RequireNone(t testing.TB, db Querier, unwanted ...Want) {
	t.Helper()
	o.requireNone(t, viaPgx(db), unwanted)
}

// RequireNoneSQL is RequireNone through database/sql.
func (o *Outbox) RequireNoneSQL(t testing.TB, db SQLQuerier, unwanted ...Want) {
	t.Helper()
	o.requireNone(t, viaSQL(db), unwanted)
}

func (o *Outbox) requireWritten(t testing.TB, read reader, want []Want) {
	t.Helper()
	candidates := make([][]string, len(want))
	for i := range want {
		candidates[i] = o.find(t, read, want[i])
	}
	if i := unmatched(candidates); i >= 0 {
		reason := "no event like"
		if len(candidates[i]) > 0 {
			reason = "too few events, each may serve once, like"
		}
		t.Fatalf("outbox %s: %s %s; %s", o.Table, reason, want[i], o.list(t, read))
	}
}

func (o *Outbox) requireNone(t testing.TB, read reader, unwanted []Want) {
	t.Helper()
	if len(unwanted) == 0 {
		unwanted = []Want{{}}
	}
	for _, u := range unwanted {
		if found := o.find(t, read, u); len(found) > 0 {
			t.Fatalf("outbox %s: want no event like %s, found %d; %s", o.Table, u, len(found), o.list(t, read))
		}
	}
}

// unmatched returns a want that is left over when as many as possible have an event of their own, or -1. It is the
// textbook way by augmenting paths: a want may take the event of another one that can do with a different one.
func unmatched(candidates [][]string) int {
	holder := map[string]int{}
	var place func(want int, tried map[string]bool) bool
	place = func(want int, tried map[string]bool) bool {
		for _, id := range candidates[want] {
			if tried[id] {
				continue
			}
			tried[id] = true
			if other, taken := holder[id]; !taken || place(other, tried) {
				holder[id] = want
				return true
			}
		}
		return false
	}
	for i := range candidates {
		if !place(i, map[string]bool{}) {
			return i
		}
	}
	return -1
}

const findSQL = `
select {{id}}::text, '' from {{table}}
where ($1::text = '' or {{event_type}} = $1)
  and ($2::text = '' or {{aggregate_id}} = $2)
  and ($3::text = '' or {{partition_key}} = $3)
  and ($4::text = '' or {{topic}} = $4)
  and ($5::text = '' or {{event_id}}::text = $5)
  and ($6::text = '' or {{payload}}::jsonb @> nullif($6, '')::jsonb)`

const findHeadersSQL = `
  and {{headers}} @> $7::text::jsonb`

func (o *Outbox) find(t testing.TB, read reader, w Want) (ids []string) {
	t.Helper()
	query := findSQL
	id := ""
	if w.ID != uuid.Nil {
		id = w.ID.String()
	}
	payload := ""
	if w.Payload != nil {
		payload = toJSON(t, w.Payload)
	}
	args := []any{w.Type, w.AggregateID, w.Key, w.Topic, id, payload}
	if len(w.Headers) > 0 {
		query += findHeadersSQL
		args = append(args, toJSON(t, w.Headers))
	}
	for _, row := range o.read(t, read, query+" order by {{id}}", args...) {
		ids = append(ids, row[0])
	}
	return ids
}

// One row more than is shown, to know that there are more.
const listSQL = `
select {{id}}::text,
       {{event_type}} || ', key ' || to_json({{partition_key}}) || ', topic ' || {{topic}} || ', ' ||
       left({{payload}}::text, 400)
from {{table}} order by {{id}} limit 31`

func (o *Outbox) list(t testing.TB, read reader) string {
	t.Helper()
	rows := o.read(t, read, listSQL)
	if len(rows) == 0 {
		return "it is empty as seen from here"
	}
	var b strings.Builder
	b.WriteString("it holds:")
	for i, row := range rows {
		if i == 30 {
			b.WriteString("\n  and more")
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s", row[0], row[1])
	}
	return b.String()
}

// reader runs a query that returns two columns of text.
type reader func(ctx context.Context, query string, args []any) ([][2]string, error)

func (o *Outbox) read(t testing.TB, read reader, query string, args ...any) [][2]string {
	t.Helper()
	// Not the test's own context: an assertion may stand in a cleanup function, where that has ended.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, column := range []string{"event_type", "aggregate_id"} {
		if !o.columns.Has(column) { // it holds nothing, so nothing is like it
			query = strings.ReplaceAll(query, "{{"+column+"}}", "''")
		}
	}
	rows, err := read(ctx, o.columns.Fill(query, "{{table}}", o.table.String()), args)
	if err != nil {
		t.Fatalf("read outbox %s: %v", o.Table, err)
	}
	return rows
}

func viaPgx(db Querier) reader {
	return func(ctx context.Context, query string, args []any) ([][2]string, error) {
		rows, err := db.Query(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r [2]string, err error) {
			return r, row.Scan(&r[0], &r[1])
		})
	}
}

func viaSQL(db SQLQuerier) reader {
	return func(ctx context.Context, query string, args []any) (all [][2]string, err error) {
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var r [2]string
			if err := rows.Scan(&r[0], &r[1]); err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return all, rows.Err()
	}
}

// String names the conditions, for failure messages.
func (w Want) String() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("type", w.Type)
	add("aggregate id", w.AggregateID)
	add("key", w.Key)
	add("topic", w.Topic)
	if w.ID != uuid.Nil {
		add("id", w.ID.String())
	}
	if w.Payload != nil {
		text, _ := json.Marshal(raw(w.Payload))
		add("payload containing", string(text))
	}
	if len(w.Headers) > 0 {
		text, _ := json.Marshal(w.Headers)
		add("headers containing", string(text))
	}
	if len(parts) == 0 {
		return "{any}"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(raw(v))
	if err != nil {
		t.Fatalf("marshal what is wanted: %v", err)
	}
	return string(text)
}

// raw lets []byte stand for JSON, as it does in posthaste.Event.
func raw(v any) any {
	if b, ok := v.([]byte); ok {
		return json.RawMessage(b)
	}
	return v
}
