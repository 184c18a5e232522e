package postgres

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"posthaste.dev/posthaste/relay"
)

// Parked is an event that Kafka refused and that was set aside. It is not tried again until an operator says so.
type Parked struct {
	ID            int64
	EventID       uuid.UUID
	Topic, Key    string
	AggregateType string
	AggregateID   string
	EventType     string
	Scope         string // what waits with it, one of ParkedScopes
	Class         string // of the failure
	Reason        string
	Attempts      int
	FirstAt       time.Time
	ParkedAt      time.Time // the latest attempt

	Request       ParkedAct // what an operator wants done with it, "" for nothing
	RequestedBy   string
	RequestedAt   time.Time
	RequestReason string
}

// ParkedScopes are what can wait with a parked event: itself alone, its key or its aggregate.
func ParkedScopes() []string {
	return []string{relay.ScopeEvent.String(), relay.ScopeKey.String(), relay.ScopeAggregate.String()}
}

// parkedScope returns what waits with a parked event.
func parkedScope(kind string, id int64, topic, key, aggregateType, aggregateID string) relay.Scope {
	switch kind {
	case relay.ScopeKey.String():
		return relay.Scope{Kind: relay.ScopeKey, Topic: topic, Key: key}
	case relay.ScopeAggregate.String():
		return relay.Scope{Kind: relay.ScopeAggregate, AggregateType: aggregateType, AggregateID: aggregateID, Key: key}
	}
	return relay.Scope{Kind: relay.ScopeEvent, ID: id}
}

// ParkedFilter says which parked events are meant. An empty field asks for nothing.
type ParkedFilter struct {
	Events    []EventRef    // these only
	Topic     relay.Pattern // of these topics
	Key       *string       // with this partition key, which may be empty
	Class     string        // with this class of failure
	Scope     string        // one of ParkedScopes
	Since     time.Time     // parked not before this
	Until     time.Time     // parked before this
	Requested *bool         // with a request of an operator, or without
}

// Everything tells whether the filter leaves nothing out.
func (f *ParkedFilter) Everything() bool {
	return len(f.Events) == 0 && f.Topic == "" && f.Key == nil && f.Class == "" && f.Scope == "" &&
		f.Since.IsZero() && f.Until.IsZero() && f.Requested == nil
}

// parkedFromSQL is about the rows of one outbox, along the primary key.
const parkedFromSQL = ` from {{schema}}.parked p where p.outbox = {{arg}}`

// addTo appends the conditions.
func (f *ParkedFilter) addTo(s *statement) {
	if len(f.Events) > 0 {
		var refs [2][]relay.Ref
		for _, e := range f.Events {
			kind := 0
			if e.EventID != uuid.Nil {
				kind = 1
			}
			refs[kind] = append(refs[kind], relay.Ref{ID: e.ID, EventID: e.EventID})
		}
		ids, _ := split(refs[0])
		_, eventIDs := split(refs[1])
		switch {
		case len(eventIDs) == 0: // by the primary key
			s.add(" and p.id = any({{arg}}::bigint[])", ids)
		default:
			s.add(" and (p.id = any({{arg}}::bigint[]) or p.event_id = any({{arg}}::uuid[]))", ids, eventIDs)
		}
	}
	if f.Topic != "" {
		s.add(" and p.topic like {{arg}}", like(f.Topic))
	}
	if f.Key != nil {
		s.add(" and p.key = {{arg}}", *f.Key)
	}
	if f.Class != "" {
		s.add(" and p.class = {{arg}}", f.Class)
	}
	if f.Scope != "" {
		s.add(" and p.scope = {{arg}}", f.Scope)
	}
	if !f.Since.IsZero() {
		s.add(" and p.parked_at >= {{arg}}", f.Since)
	}
	if !f.Until.IsZero() {
		s.add(" and p.parked_at < {{arg}}", f.Until)
	}
	if f.Requested != nil {
		s.add(" and (p.request is not null) = {{arg}}", *f.Requested)
	}
}

// ParkedList asks for parked events in the order of their ids.
type ParkedList struct {
	ParkedFilter
	Page
}

const parkedColumnsSQL = `
select p.id, p.event_id, p.topic, p.key, p.aggregate_type, p.aggregate_id, p.event_type, p.scope, p.class, p.reason,
       p.attempts, p.first_at, p.parked_at, coalesce(p.request, ''), coalesce(p.requested_by, ''), p.requested_at,
       coalesce(p.request_reason, '')`

// parkedAtOnce is how many rows one statement of a list reads.
const parkedAtOnce = 1_000

// Parked reads parked events and hands them to emit, when no statement is open: emit may take its time. It tells
// whether there are more than the limit.
//
// It walks along the primary key and filters what it meets: 100,000 parked events take a tenth of a second.
func (op *Operator) Parked(ctx context.Context, q ParkedList, emit func(Parked) error) (more bool, err error) {
	return turnPages(q.Page, parkedAtOnce, emit, func(p Parked) int64 { return p.ID },
		func(p Page) ([]Parked, error) { return op.parkedPage(ctx, &q, p) })
}

// statement returns the SQL of one page, and its arguments.
func (q *ParkedList) statement(outbox int32, p Page) (string, []any) {
	s := &statement{}
	s.add(parkedColumnsSQL+parkedFromSQL, outbox)
	s.add(" and p.id > {{arg}}::bigint and p.id < {{arg}}::bigint", p.above(), p.below())
	q.addTo(s)
	s.add(" order by p.id"+p.direction()+" limit {{arg}}", p.Limit)
	return s.String(), s.args
}

func (op *Operator) parkedPage(ctx context.Context, q *ParkedList, p Page) (page []Parked, err error) {
	sql, args := q.statement(op.outbox.BaseID, p)
	err = op.looking(ctx, "list parked events", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, op.sql(sql), args...)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, scanParked)
		return err
	})
	return page, err
}

func scanParked(row pgx.CollectableRow) (p Parked, err error) {
	var first, latest, requested pgtype.Timestamptz
	err = row.Scan(&p.ID, &p.EventID, &p.Topic, &p.Key, &p.AggregateType, &p.AggregateID, &p.EventType, &p.Scope,
		&p.Class, &p.Reason, &p.Attempts, &first, &latest, &p.Request, &p.RequestedBy, &requested, &p.RequestReason)
	p.FirstAt, p.ParkedAt, p.RequestedAt = printable(first), printable(latest), printable(requested)
	return p, err
}

// ParkedDetail is a parked event with all that is known of it.
type ParkedDetail struct {
	Parked
	Event  *StoredEvent // its row of the outbox table, nil where that is gone
	Behind Waiting      // the unpublished events of its scope with higher ids, parked ones among them
}

// ShowParked returns the parked event with this outbox id or event id: one, or none.
func (op *Operator) ShowParked(ctx context.Context, ref EventRef) (found []ParkedDetail, err error) {
	q := ParkedList{ParkedFilter: ParkedFilter{Events: []EventRef{ref}}, Page: Page{Limit: parkedAtOnce}}
	_, err = op.Parked(ctx, q, func(p Parked) error {
		found = append(found, ParkedDetail{Parked: p})
		return nil
	})
	for i := range found {
		if err == nil {
			err = op.fillDetail(ctx, &found[i])
		}
	}
	return found, err
}

func (op *Operator) fillDetail(ctx context.Context, d *ParkedDetail) error {
	events, err := op.table(ctx)
	if err != nil {
		return err
	}
	rows, err := events.Find(ctx, EventRef{ID: d.ID})
	if err != nil {
		return err
	}
	for _, e := range rows {
		if e.EventID == d.EventID {
			d.Event = &e
		}
	}
	scope := parkedScope(d.Scope, d.ID, d.Topic, d.Key, d.AggregateType, d.AggregateID)
	if scope.Kind == relay.ScopeEvent || d.ID == math.MaxInt64 {
		return nil
	}
	waiting, err := op.countWaiting(ctx, scope.Kind, d.ID+1, []relay.Scope{scope})
	if err == nil {
		d.Behind = waiting[0]
	}
	return err
}
