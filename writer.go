package posthaste

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste.dev/posthaste/internal/pgname"
)

const (
	// DefaultTable is where the outbox is unless Config.Table says otherwise.
	DefaultTable = "public.outbox_event"

	// DefaultMaxRecordBytes is the largest batch that a Kafka topic takes as it comes (max.message.bytes).
	DefaultMaxRecordBytes = 1<<20 + 12

	// largestRecordBytes is where jsonb ends: no string or object in it may be larger.
	largestRecordBytes = 1<<28 - 1
)

// Config says how a [Writer] writes. Only Types is required.
type Config struct {
	// Types are the events that may be written. An event of another type is refused.
	Types *Registry

	// Table is the outbox table as it would stand in SQL: folded to lower case unless quoted, in the schema public
	// unless it names one, whatever the search_path. Default: DefaultTable.
	Table string

	// Columns names the columns of a table that has others than the usual ones, as in {"event_id": "uuid"}: the other
	// name as it would stand in SQL. An empty name says that the table has no such column, which may be said of
	// aggregate_type, aggregate_id, event_type, created_at and headers. Two that share one column, as where
	// partition_key stands in aggregate_id, must be equal in every event. The relay has the same setting
	// (POSTHASTE_COLUMNS). Default: the usual names.
	Columns map[string]string

	// Headers says that the table has the optional column headers jsonb (posthaste migrate up --headers). Default:
	// false, the table as the seed of the convention lists it: then an event with headers is refused, and the trace
	// context is not sent.
	Headers bool

	// Strict makes transactions that write the same key wait for one another, from the first Write to the commit, so
	// that first deliveries of a key come in the order of ids without a row lock of the caller's. Default: false.
	//
	// It takes one advisory lock for each of the keys' stripes, of which there are 1,024 a table: two keys may share
	// one and then wait for each other too. All locks of a call are taken in ascending order, so calls can't deadlock,
	// but transactions with several calls can ([ErrDeadlock]): write all events of a transaction in one call. Writers
	// in other languages join in by the same lock; see [StrictLockClass].
	Strict bool

	// MaxRecordBytes bounds what an event will take in Kafka, uncompressed: the payload as PostgreSQL prints it, key,
	// headers and framing. Default: DefaultMaxRecordBytes. Raise it together with the topics' max.message.bytes: what a
	// topic does not take, the relay can't ship.
	MaxRecordBytes int

	// Now tells the time, for occurred_at. Default: time.Now.
	Now func() time.Time
}

// StrictLockClass is the first key of the advisory locks that Config.Strict takes: "post" in ASCII, negative because
// the relays' own locks have positive classes. The second key is made of the table's name, schema-qualified and both
// parts quoted, and of the event's key. In SQL, before the insert:
//
//	select pg_advisory_xact_lock(-1886352244, (hashtext('"public"."outbox_event"') << 10) | (hashtext($1) & 1023))
const StrictLockClass = -1886352244

// Tx is a transaction of pgx: pgx.Tx, *pgxpool.Tx and what wraps them. A pool or a connection has Exec too, but no
// Rollback, which is asked for just to keep them out; it is never called.
type Tx interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Rollback(ctx context.Context) error
}

// SQLTx is a transaction of database/sql: *sql.Tx, types that embed it (sqlx.Tx), and gorm's, by
// tx.Statement.ConnPool.(posthaste.SQLTx). A *sql.DB or *sql.Conn has ExecContext too, but no Rollback, which is asked
// for just to keep them out; it is never called. Of a bun.Tx pass its field Tx: bun.Tx itself puts arguments into
// the statement by a syntax of its own, and the statement fails.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Rollback() error
}

// Writer writes events into the outbox table within transactions of its callers. It holds no connection and nothing to
// close, and is safe for concurrent use.
type Writer struct {
	types    *Registry
	table    pgname.Table
	columns  pgname.Columns
	headers  bool
	maxBytes int
	now      func() time.Time
	insert   string
}

// NewWriter makes a Writer. It does not look at the database. All mistakes in the configuration come back at once.
func NewWriter(cfg Config) (*Writer, error) {
	var mistakes []error
	if cfg.Types == nil {
		mistakes = append(mistakes, errors.New("field Types is missing: make it by NewRegistry"))
	}
	if cfg.Table == "" {
		cfg.Table = DefaultTable
	}
	table, err := pgname.ParseTable(cfg.Table)
	if err != nil {
		mistakes = append(mistakes, fmt.Errorf("field Table: %w", err))
	}
	columns, err := pgname.MapColumns(cfg.Columns)
	if err != nil {
		mistakes = append(mistakes, fmt.Errorf("field Columns: %w", err))
	}
	if cfg.Headers && !columns.Has("headers") {
		mistakes = append(mistakes, errors.New("field Headers is true, but Columns says that the table has no headers"))
	}
	switch n := cfg.MaxRecordBytes; {
	case n == 0:
		cfg.MaxRecordBytes = DefaultMaxRecordBytes
	case n < recordFraming || n > largestRecordBytes:
		mistakes = append(mistakes, fmt.Errorf("field MaxRecordBytes is %d: want %d to %d, or 0 for the default of %d",
			n, recordFraming, largestRecordBytes, DefaultMaxRecordBytes))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("configure writer:%w", refusals[error](mistakes))
	}
	return &Writer{
		types:    cfg.Types,
		table:    table,
		columns:  columns,
		headers:  cfg.Headers,
		maxBytes: cfg.MaxRecordBytes,
		now:      cfg.Now,
		insert:   insertSQL(table, columns, cfg.Headers, cfg.Strict),
	}, nil
}

// Write writes events in a transaction of pgx, in one statement and in the order given; without events it does nothing.
// The trace context is taken from ctx.
//
// A [RefusedError] means that nothing was sent and the transaction goes on. After any other error roll the transaction
// back, which PostgreSQL has mostly failed already; [Retriable] tells whether to run it again.
func (w *Writer) Write(ctx context.Context, tx Tx, events ...Event) error {
	records, err := w.check(ctx, events)
	if err != nil || len(records) == 0 {
		return err
	}
	args := make([]any, 0, columnCount)
	for _, column := range w.parameters(records) {
		args = append(args, column)
	}
	tag, err := tx.Exec(ctx, w.insert, args...)
	if err != nil {
		return w.explain(err, records)
	}
	return w.confirm(tag.RowsAffected(), records)
}

// WriteSQL is Write for a transaction of database/sql, with any PostgreSQL driver.
func (w *Writer) WriteSQL(ctx context.Context, tx SQLTx, events ...Event) error {
	records, err := w.check(ctx, events)
	if err != nil || len(records) == 0 {
		return err
	}
	args := make([]any, 0, columnCount)
	for _, column := range w.parameters(records) {
		args = append(args, arrayLiteral(column))
	}
	result, err := tx.ExecContext(ctx, w.insert, args...)
	if err != nil {
		return w.explain(err, records)
	}
	written, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("write events: count the rows written: %w", err)
	}
	return w.confirm(written, records)
}

// The insert has one text for any number of events, so it is prepared once. All parameters are text arrays, which every
// driver and every protocol mode can send; the casts are the server's. Ids follow the order of the events: PostgreSQL
// draws them for the rows in the order that the select returns them.
const (
	insertHead = `insert into {{table}} ({{event_id}}, {{aggregate_type}}, {{aggregate_id}}, {{event_type}},
    {{payload}}, {{topic}}, {{partition_key}})
select e.event_id::uuid, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::jsonb, e.topic, e.partition_key
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
     with ordinality as e(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, position)`

	insertHeadHeaders = `insert into {{table}} ({{event_id}}, {{aggregate_type}}, {{aggregate_id}}, {{event_type}},
    {{payload}}, {{topic}}, {{partition_key}}, {{headers}})
select e.event_id::uuid, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::jsonb, e.topic, e.partition_key,
       nullif(e.headers, '')::jsonb
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
     with ordinality as e(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers,
                          position)`

	// The locks are all taken before the first id is drawn, in the same round trip: the condition does not depend on
	// the rows, so PostgreSQL evaluates it once, ahead of them (a one-time filter on an InitPlan), and ids are drawn
	// above that. The test of strict mode watches the sequence while a writer waits.
	insertLocks = `
where (select count(pg_advisory_xact_lock({{class}}, s.stripe))
       from (select distinct (hashtext({{name}}) << 10) | (hashtext(k) & 1023) as stripe
             from unnest($7::text[]) as k
             order by 1) as s) > 0`

	insertTail = `
order by e.position`
)

func insertSQL(table pgname.Table, columns pgname.Columns, headers, strict bool) string {
	text := insertHead
	if headers {
		text = insertHeadHeaders
	}
	// A column that the table has not, or that an earlier one stands in, is neither named nor selected; its parameter
	// stays.
	shared := columns.Shared()
	for _, c := range pgname.ColumnNames() {
		if _, shares := shared[c]; shares || !columns.Has(c) {
			text = strings.NewReplacer(", {{"+c+"}}", "", ", e."+c, "").Replace(text)
		}
	}
	if strict {
		text += insertLocks
	}
	name := `'` + strings.ReplaceAll(table.String(), `'`, `''`) + `'`
	return columns.Fill(text+insertTail,
		"{{table}}", table.String(), "{{name}}", name, "{{class}}", fmt.Sprint(StrictLockClass))
}

// parameters turns records into one array for each parameter.
func (w *Writer) parameters(records []record) [][]string {
	columns := make([][]string, columnCount)
	if !w.headers {
		columns = columns[:len(columns)-1]
	}
	all := make([]string, len(columns)*len(records))
	for i := range columns {
		columns[i], all = all[:len(records):len(records)], all[len(records):]
	}
	for row := range records {
		values := records[row].columns()
		for i := range columns {
			columns[i][row] = values[i]
		}
	}
	return columns
}

// arrayLiteral writes an array of texts as PostgreSQL reads it. database/sql has no arrays, and each driver its own way
// to pass one; a literal is understood by all, under the same statement.
func arrayLiteral(column []string) string {
	size := len("{}")
	for _, s := range column {
		size += len(s) + len(s)/8 + len(`"",`)
	}
	b := make([]byte, 0, size)
	b = append(b, '{')
	for i, s := range column {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		for j := range len(s) {
			if s[j] == '"' || s[j] == '\\' {
				b = append(b, '\\')
			}
			b = append(b, s[j])
		}
		b = append(b, '"')
	}
	return string(append(b, '}'))
}

// confirm holds the number of rows written against the number of events: a trigger or a rule on the table can swallow
// a row without any error, and with it the event.
func (w *Writer) confirm(written int64, records []record) error {
	if written == int64(len(records)) {
		return nil
	}
	return fmt.Errorf("write events: %d given, but the table %s took %d rows: roll back, and look for a trigger or "+
		"rule on it that drops or adds rows", len(records), w.table, written)
}
