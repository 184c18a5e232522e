package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"posthaste.dev/posthaste/internal/pgname"
)

// StoredEvent is a row of the outbox table.
type StoredEvent struct {
	ID            int64
	EventID       uuid.UUID
	AggregateType string
	AggregateID   string
	EventType     string
	Topic         string
	Key           string
	CreatedAt     time.Time // zero where the table has none; what RFC 3339 can't say becomes the first or last it can
	PublishedAt   time.Time // zero while unpublished
	Payload       []byte    // as PostgreSQL prints it, byte for byte the record's value; nil where it was not asked for
	Headers       []byte    // the column headers as PostgreSQL prints it, nil for none
}

// EventState says which events are wanted.
type EventState string

// The states.
const (
	EventsAll         EventState = "all"
	EventsUnpublished EventState = "unpublished"
	EventsPublished   EventState = "published"
)

// EventFilter says which events are wanted. An empty field asks for nothing.
type EventFilter struct {
	State       EventState // "" as EventsAll
	EventID     uuid.UUID
	Topic       string
	Key         string
	Type        string
	AggregateID string
	Since       time.Time // created_at not before this
	Until       time.Time // created_at before this
}

// Events reads an outbox table for people. It needs select on the table and nothing else, changes nothing, and its
// statements end after five seconds each. It belongs to one goroutine at a time.
type Events struct {
	conn  *pgx.Conn
	names Names

	lacks    []string // the usual names of columns that the table is without
	waiting  bool     // the partial index is there
	ordered  bool     // an index on (id) is there
	sequence string   // "" where it can't be read, or proves nothing
}

// OpenEvents looks at the table. A *SchemaError says what keeps its events from being read; a missing index is told
// only to whoever needs it.
func OpenEvents(ctx context.Context, conn *pgx.Conn, names Names) (*Events, error) {
	c, o, err := lookAsReader(ctx, conn, names)
	if err != nil {
		return nil, err
	}
	problems := slices.DeleteFunc(c.judgeTable([]Right{RightRead}),
		func(p Problem) bool { return errors.Is(p, ErrIndex) })
	if len(problems) > 0 {
		return nil, &SchemaError{Outbox: names.Table.String(), Problems: problems}
	}
	e := &Events{conn: conn, names: names, lacks: o.Lacks, waiting: c.hasIndex()}
	for _, usual := range pgname.ColumnNames() {
		if !names.Columns.Has(usual) || usual == "headers" && !o.HasHeaders {
			e.lacks = append(e.lacks, usual)
		}
	}
	if o.SequenceTrusted && !c.standby { // a standby doesn't show the primary's locks
		e.sequence = o.Sequence
	}
	id, _ := c.column("id")
	e.ordered = slices.ContainsFunc(c.indexes, func(x index) bool {
		return x.method == "btree" && x.first == id.number && x.predicate == "" && x.valid
	})
	return e, nil
}

// Now returns the database clock, which times are compared on.
func (e *Events) Now(ctx context.Context) (time.Time, error) { return clock(ctx, e.conn) }

// need refuses a filter that the table can't serve: by a column that it has not, or without the index to walk along.
func (e *Events) need(f *EventFilter) error {
	for usual, wanted := range map[string]bool{
		"created_at": !f.Since.IsZero() || !f.Until.IsZero(),
		"event_type": f.Type != "", "aggregate_id": f.AggregateID != "",
	} {
		if wanted && slices.Contains(e.lacks, usual) {
			return Problem{ErrColumn, fmt.Sprintf("%s has no column for %s to look for", e.names.Table, usual),
				"leave that filter out"}
		}
	}
	return e.needIndex(f.State)
}

// needIndex refuses a walk that would have to sort the whole table.
func (e *Events) needIndex(state EventState) error {
	id := e.names.Columns.SQL("id")
	switch {
	case state == EventsUnpublished && !e.waiting:
		return Problem{ErrIndex, fmt.Sprintf("no valid index on (%s) where %s is null on %s", id,
			e.names.Columns.SQL("published_at"), e.names.Table),
			"run: " + e.names.command("migrate up")}
	case state != EventsUnpublished && !e.ordered:
		return Problem{ErrIndex,
			fmt.Sprintf("no valid index on (%s) on %s, so its events can't be read in order", id, e.names.Table),
			fmt.Sprintf("run: create index concurrently on %s (%s)", e.names.Table, id)}
	}
	return nil
}

// filterColumns are what a filter needs of a row.
const filterColumns = `{{id}} as id, {{event_id}} as event_id, {{aggregate_id}} as aggregate_id,
       {{event_type}} as event_type, {{topic}} as topic, {{partition_key}} as partition_key,
       {{created_at}} as created_at, {{published_at}} as published_at`

// match returns the filter as a condition on those columns, its values behind the arguments.
func (f *EventFilter) match(args *[]any) string {
	conditions := []string{"true"}
	add := func(condition string, value any) {
		*args = append(*args, value)
		conditions = append(conditions, strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(*args))))
	}
	for _, text := range []struct{ condition, value string }{
		{"topic = ?", f.Topic},
		{"partition_key = ?", f.Key},
		{"event_type = ?", f.Type},
		{"aggregate_id = ?", f.AggregateID},
	} {
		if text.value != "" {
			add(text.condition, text.value)
		}
	}
	if f.EventID != uuid.Nil {
		add("event_id = ?", pgtype.UUID{Bytes: f.EventID, Valid: true})
	}
	if !f.Since.IsZero() {
		add("created_at >= ?", f.Since)
	}
	if !f.Until.IsZero() {
		add("created_at < ?", f.Until)
	}
	switch f.State {
	case EventsUnpublished:
		conditions = append(conditions, "published_at is null")
	case EventsPublished:
		conditions = append(conditions, "published_at is not null")
	}
	return strings.Join(conditions, " and ")
}

// narrow tells whether the filter leaves out rows that a walk meets.
func (f *EventFilter) narrow() bool {
	return f.Topic != "" || f.Key != "" || f.Type != "" || f.AggregateID != "" || f.State == EventsPublished ||
		!f.Since.IsZero() || !f.Until.IsZero()
}

const rowsSQL = `
select {{id}}, {{event_id}}, coalesce({{aggregate_type}}, ''), coalesce({{aggregate_id}}, ''),
       coalesce({{event_type}}, ''), {{topic}}, {{partition_key}}, {{created_at}}, {{published_at}}, `

const (
	withPayload    = `{{payload}}::text, {{headers}}::text from {{table}} where `
	withoutPayload = `null, null from {{table}} where `
)

func (e *Events) rowsStatement(payload bool) string {
	if payload {
		return e.sql(rowsSQL + withPayload)
	}
	return e.sql(rowsSQL + withoutPayload)
}

// sql fills a statement's names in; a column that the table lacks reads as null.
func (e *Events) sql(text string) string {
	for _, usual := range e.lacks {
		null := "null::text"
		if usual == "created_at" {
			null = "null::timestamptz"
		}
		text = strings.ReplaceAll(text, "{{"+usual+"}}", null)
	}
	return e.names.sql(text)
}

// rows reads the events of a condition whose cost the caller knows to be bounded.
func (e *Events) rows(
	ctx context.Context, tx pgx.Tx, payload bool, condition string, args ...any,
) ([]StoredEvent, error) {
	rows, err := tx.Query(ctx, e.rowsStatement(payload)+e.sql(condition), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s StoredEvent, err error) {
		var created, published pgtype.Timestamptz
		err = row.Scan(&s.ID, &s.EventID, &s.AggregateType, &s.AggregateID, &s.EventType, &s.Topic, &s.Key, &created,
			&published, &s.Payload, &s.Headers)
		s.CreatedAt, s.PublishedAt = printable(created), printable(published)
		return s, err
	})
}

// printable returns a time that RFC 3339 can print, zero for null.
func printable(t pgtype.Timestamptz) time.Time {
	switch {
	case !t.Valid:
		return time.Time{}
	case t.InfinityModifier == pgtype.Infinity || t.Time.After(lastTime):
		return lastTime
	case t.InfinityModifier == pgtype.NegativeInfinity || t.Time.Before(firstTime):
		return firstTime
	}
	return t.Time.UTC()
}

// EventRef names an event by one of its two ids; the other is zero.
type EventRef struct {
	ID      int64
	EventID uuid.UUID
}

// ParseEventRef reads an outbox id, which is a number, or an event id, which is a UUID.
func ParseEventRef(text string) (r EventRef, err error) {
	if r.ID, err = strconv.ParseInt(text, 10, 64); err == nil {
		return r, nil
	}
	if r.EventID, err = uuid.Parse(text); err == nil {
		return r, nil
	}
	return r, fmt.Errorf("find event %q: want an outbox id, a number, or an event id, a UUID", text)
}

// Find returns the events with this outbox id or event id, payload and headers with them: one, or none; several where a
// partitioned table lets an id come twice.
func (e *Events) Find(ctx context.Context, ref EventRef) (found []StoredEvent, err error) {
	condition, arg := "{{id}} = $1::bigint", any(ref.ID)
	if ref.EventID != uuid.Nil {
		condition, arg = "{{event_id}} = $1", pgtype.UUID{Bytes: ref.EventID, Valid: true}
	}
	err = looking(ctx, e.conn, lookLimit, func(tx pgx.Tx) error {
		found, err = e.rows(ctx, tx, true, condition, arg)
		return err
	})
	return found, e.explain("find event", err)
}

// explain says what it means that a statement was ended.
func (e *Events) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case tooLong(err):
		return fmt.Errorf("%s: %s did not answer within %v: it is locked, has no index for this, or a transaction "+
			"that has been open for long keeps dead entries in the index", what, e.names.Table, lookLimit)
	}
	return fmt.Errorf("%s: %w", what, err)
}
