package postgres

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// EventList asks for events in the order of their ids.
type EventList struct {
	EventFilter
	Limit       int  // at most this many events
	MaxLook     int  // at most this many rows are looked at, whether they match or not
	OldestFirst bool // else the newest, which are those with the highest ids, come first
	Above       int64
	Below       int64 // ids between these two only; 0 for no bound
	Payload     bool  // payload and headers are wanted
}

// Looked tells how far a List came.
type Looked struct {
	Rows int   // looked at
	Last int64 // the id of the last of them
	Cut  bool  // MaxLook ended it: there may be more that match
}

// The rows that one statement of a List walks over: few at first, so that a list without a filter reads no more than it
// shows.
const (
	windowFirst = 1_000
	windowMax   = 20_000
)

// List reads events and hands them to emit, a few hundred at a time, when no statement is open: emit may take its time.
// Each event is as it stood when it was read.
//
// It walks along the primary key, or for EventsUnpublished along the partial index, a window of rows at a time, and
// filters what it meets; an event id is looked up instead. No other index is wanted. Times need none since created_at
// rises with the id, nearly: a walk that looks for what is since, newest first, or until, oldest first, is done after
// twenty thousand rows in a row that lie beyond.
func (e *Events) List(ctx context.Context, q EventList, emit func(StoredEvent) error) (Looked, error) {
	var l Looked
	if q.EventID != uuid.Nil {
		return e.lookUp(ctx, &q, emit)
	}
	if err := e.need(&q.EventFilter); err != nil {
		return l, err
	}
	size := windowFirst
	if !q.narrow() {
		size = min(q.Limit, windowMax)
	}
	for left := q.Limit; ; size = min(size*4, windowMax) {
		w, err := e.window(ctx, &q, min(size, q.MaxLook-l.Rows))
		if err != nil {
			return l, e.explain("list events", err)
		}
		for ids := range slices.Chunk(w.ids[:min(len(w.ids), left)], rowsAtOnce) {
			n, err := e.emit(ctx, &q, ids, emit)
			if err != nil {
				return l, e.explain("list events", err)
			}
			left -= n
		}
		if l.Rows += w.rows; w.rows > 0 {
			l.Last = w.last
		}
		if left <= 0 || w.end || w.rows == windowMax && w.beyond {
			return l, nil
		}
		if l.Rows >= q.MaxLook {
			l.Cut = true
			return l, nil
		}
		if q.OldestFirst {
			q.Above = w.last
		} else {
			q.Below = w.last
		}
	}
}

// lookUp reads the events of one event id, by its unique index.
func (e *Events) lookUp(ctx context.Context, q *EventList, emit func(StoredEvent) error) (l Looked, err error) {
	var args []any
	condition := q.match(&args)
	var events []StoredEvent
	err = looking(ctx, e.conn, lookLimit, func(tx pgx.Tx) error {
		events, err = e.rows(ctx, tx, q.Payload, condition, args...)
		return err
	})
	if err != nil {
		return l, e.explain("find event "+q.EventID.String(), err)
	}
	for _, event := range events {
		l.Rows, l.Last = l.Rows+1, event.ID
		if err := emit(event); err != nil {
			return l, err
		}
	}
	return l, nil
}

// rowsAtOnce bounds the payloads in memory.
const rowsAtOnce = 200

// emit reads events by their ids and hands them on. A row that was deleted since its window was read is passed over,
// and so is one that was published if unpublished ones are wanted.
func (e *Events) emit(ctx context.Context, q *EventList, ids []int64, emit func(StoredEvent) error) (n int, err error) {
	var events []StoredEvent
	err = looking(ctx, e.conn, lookLimit, func(tx pgx.Tx) error {
		events, err = e.rows(ctx, tx, q.Payload, "{{id}} = any($1::bigint[])", ids)
		return err
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(events, func(a, b StoredEvent) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	for _, event := range events {
		if q.State == EventsUnpublished && !event.PublishedAt.IsZero() {
			continue
		}
		if err := emit(event); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// window is what one statement of a walk met.
type window struct {
	rows   int
	last   int64   // the id of its last row
	ids    []int64 // that match, in the order of the walk
	end    bool    // there are no more rows
	beyond bool    // all of its rows lie beyond the times that are wanted
}

// windowSQL walks over some rows in the order of their ids. Plan: one index scan, backwards for the newest first.
const windowSQL = `
select count(*), coalesce({{last}}(id), 0), coalesce(array_agg(id) filter (where {{match}}), '{}'),
       min(created_at), max(created_at)
from (select ` + filterColumns + ` from {{table}} where {{range}} order by {{id}} {{direction}} limit $1) walk`

// statement returns a window's SQL and arguments.
func (q *EventList) statement(size int) (string, []any) {
	args := []any{size}
	bounds, last, direction := "{{id}} > $2::bigint and {{id}} < $3::bigint", "min", "desc"
	if q.OldestFirst {
		last, direction = "max", "asc"
	}
	above, below := int64(math.MinInt64), int64(math.MaxInt64)
	if q.Above != 0 {
		above = q.Above
	}
	if q.Below != 0 {
		below = q.Below
	}
	args = append(args, above, below)
	if q.State == EventsUnpublished {
		bounds += " and {{published_at}} is null"
	}
	match := q.match(&args)
	return strings.NewReplacer("{{last}}", last, "{{match}}", match, "{{range}}", bounds, "{{direction}}", direction).
		Replace(windowSQL), args
}

func (e *Events) window(ctx context.Context, q *EventList, size int) (w window, err error) {
	sql, args := q.statement(size)
	var first, latest pgtype.Timestamptz
	err = looking(ctx, e.conn, lookLimit, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, e.sql(sql), args...).Scan(&w.rows, &w.last, &w.ids, &first, &latest)
	})
	if err != nil {
		return w, err
	}
	slices.Sort(w.ids)
	if !q.OldestFirst {
		slices.Reverse(w.ids)
	}
	w.end = w.rows < size
	w.beyond = !q.OldestFirst && !q.Since.IsZero() && printable(latest).Before(q.Since) ||
		q.OldestFirst && !q.Until.IsZero() && !printable(first).Before(q.Until)
	return w, nil
}
