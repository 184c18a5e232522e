package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// ParkedAct is what an operator wants done with parked events.
type ParkedAct string

// The acts. A retry lets the event go first of all that waits with it. A discard deletes the event from the outbox
// table, it is never published; the audit table keeps it. What waited behind the event goes on, up to the next parked
// event of the key, or of the aggregate.
const (
	Retry   ParkedAct = "retry"
	Discard ParkedAct = "discard"
)

// MaxChosen is how many parked events can be chosen at once, so that an act stays a transaction of a few seconds.
const MaxChosen = 100_000

// Choice names the parked events that a filter chose at one moment. Only these are acted on, whatever is parked later.
type Choice struct {
	Refs      []relay.Ref
	Topics    []string // theirs, in order
	Keys      int      // how many keys theirs are, each topic's its own
	Requested int      // of Refs, those with a request that a new one replaces
	More      bool     // there are more than MaxChosen
	Missing   []EventRef
	filter    ParkedFilter
}

// Choose finds the parked events that the filter means, those with the lowest ids first. Missing are the filter's own
// Events that are not parked, or kept out by the rest of it.
func (op *Operator) Choose(ctx context.Context, filter ParkedFilter) (*Choice, error) {
	s := &statement{}
	s.add("select p.id, p.event_id, p.topic, p.key, p.request is not null"+parkedFromSQL, op.outbox.BaseID)
	filter.addTo(s)
	s.add(" order by p.outbox, p.id limit {{arg}}", MaxChosen+1)
	c := &Choice{filter: filter}
	keys, topics := map[relay.TopicKey]bool{}, map[string]bool{}
	err := op.looking(ctx, "choose parked events", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, op.sql(s.String()), s.args...)
		if err != nil {
			return err
		}
		var ref relay.Ref
		var key relay.TopicKey
		var requested bool
		_, err = pgx.ForEachRow(rows, []any{&ref.ID, &ref.EventID, &key.Topic, &key.Key, &requested}, func() error {
			if len(c.Refs) == MaxChosen {
				c.More = true
				return nil
			}
			c.Refs = append(c.Refs, ref)
			if requested {
				c.Requested++
			}
			keys[key], topics[key.Topic] = true, true
			return nil
		})
		return err
	})
	c.Topics, c.Keys = slices.Sorted(maps.Keys(topics)), len(keys)
	for _, e := range filter.Events {
		if !slices.ContainsFunc(c.Refs, e.names) {
			c.Missing = append(c.Missing, e)
		}
	}
	return c, err
}

func (r EventRef) names(ref relay.Ref) bool {
	if r.EventID != uuid.Nil {
		return r.EventID == ref.EventID
	}
	return r.ID == ref.ID
}

// Request is what was written down for relays to do.
type Request struct {
	Act      ParkedAct
	At       time.Time // by the database clock; it tells this request from another
	Refs     []relay.Ref
	Replaced int // of them, those that had another request
}

// The rows are locked in the order of their ids, and those that a relay has just dealt with are passed over.
const askSQL = `
with chosen as (
    select p.id, p.event_id, p.request from {{schema}}.parked p
    where p.outbox = $1 and p.id = any($2::bigint[])
      and (p.id, p.event_id) in (select * from unnest($2::bigint[], $3::uuid[]))
    order by p.id for update),
asked as (
    update {{schema}}.parked p
    set request = $4, requested_by = $5, requested_at = statement_timestamp(), request_reason = nullif($6, '')
    from chosen c where p.outbox = $1 and p.id = c.id)
select id, event_id, request is not null, statement_timestamp() from chosen`

// auditedIDs is how many ids of an act's events are written down; the filter and their number always are.
const auditedIDs = 1_000

// Request asks relays to retry or discard the events of a choice, as far as they are still parked, and writes that
// down. A request replaces an earlier one of the same event. A discard needs a reason.
func (op *Operator) Request(ctx context.Context, act ParkedAct, c *Choice, by By) (*Request, error) {
	if act != Retry && act != Discard {
		return nil, fmt.Errorf("request %q: want retry or discard", act)
	}
	if err := by.check(act == Discard); err != nil {
		return nil, fmt.Errorf("request %s: %w", act, err)
	}
	r := &Request{Act: act}
	ids, eventIDs := split(c.Refs)
	err := op.acting(ctx, "request "+string(act), func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, op.sql(askSQL), op.outbox.BaseID, ids, eventIDs, string(act), op.who(by),
			by.Reason)
		if err != nil {
			return err
		}
		var ref relay.Ref
		var replaced bool
		_, err = pgx.ForEachRow(rows, []any{&ref.ID, &ref.EventID, &replaced, &r.At}, func() error {
			r.Refs = append(r.Refs, ref)
			if replaced {
				r.Replaced++
			}
			return nil
		})
		if err != nil || len(r.Refs) == 0 {
			return err
		}
		n := len(r.Refs)
		return op.record(ctx, tx, by, string(act), c.target(r), &n)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// chosenTarget is what an act was about, as the audit table has it.
type chosenTarget struct {
	IDs       []int64  `json:"ids"` // the first of them
	Topics    []string `json:"topics"`
	Topic     string   `json:"topic,omitempty"`
	Key       *string  `json:"key,omitempty"`
	Class     string   `json:"class,omitempty"`
	Scope     string   `json:"scope,omitempty"`
	Since     string   `json:"since,omitempty"`
	Until     string   `json:"until,omitempty"`
	Requested *bool    `json:"requested,omitempty"`
	All       bool     `json:"all,omitempty"`
	Replaced  int      `json:"replaced,omitempty"`
}

func (c *Choice) target(r *Request) chosenTarget {
	f := &c.filter
	t := chosenTarget{Topics: c.Topics[:min(len(c.Topics), auditedIDs)], Topic: string(f.Topic), Key: f.Key,
		Class: f.Class, Scope: f.Scope, Requested: f.Requested, All: f.Everything(), Replaced: r.Replaced}
	for _, ref := range r.Refs[:min(len(r.Refs), auditedIDs)] {
		t.IDs = append(t.IDs, ref.ID)
	}
	if !f.Since.IsZero() {
		t.Since = f.Since.UTC().Format(time.RFC3339Nano)
	}
	if !f.Until.IsZero() {
		t.Until = f.Until.UTC().Format(time.RFC3339Nano)
	}
	return t
}

// Outcome counts what became of the events of a request.
type Outcome struct {
	Pending  int // no relay has acted on the request yet
	Replaced int // somebody asked for something else
	Again    int // parked again; of a discard: parked still, since the relay may not delete it
	Released int // free, but not published yet
	Sent     int // published
	Gone     int // the row is gone: discarded, or sent by relays that delete what they have sent
}

// Open counts those that something may still become of.
func (o Outcome) Open() int { return o.Pending + o.Released }

// The states are the fields of Outcome, in their order.
const outcomeSQL = `
select r.id, r.event_id, case
    when p.request is not null and p.requested_at = $4 then 0
    when p.request is not null then 1
    when p.id is not null then 2
    when e.{{id}} is null then 5
    when e.{{published_at}} is null then 3
    else 4 end
from unnest($2::bigint[], $3::uuid[]) r (id, event_id)
left join {{schema}}.parked p on p.outbox = $1 and p.id = r.id and p.event_id = r.event_id
left join {{table}} e on e.{{id}} = r.id and e.{{event_id}} = r.event_id`

// Await looks at what becomes of a request until nothing is open any more or the context ends, and returns the latest
// count. A look at 100,000 events takes about half a second; the pauses between looks are longer than that.
func (op *Operator) Await(ctx context.Context, r *Request) (Outcome, error) {
	var closed Outcome
	open := r.Refs
	for {
		began := time.Now()
		now, err := op.outcome(context.WithoutCancel(ctx), r, &open, &closed)
		if err != nil || now.Open() == 0 {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, nil
		case <-time.After(max(250*time.Millisecond, 3*time.Since(began))):
		}
	}
}

// outcome looks at the open events, and takes those that are done with out of them.
func (op *Operator) outcome(ctx context.Context, r *Request, open *[]relay.Ref, closed *Outcome) (Outcome, error) {
	ids, eventIDs := split(*open)
	now, still := *closed, []relay.Ref(nil)
	err := op.looking(ctx, "see what became of the request", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, op.sql(outcomeSQL), op.outbox.BaseID, ids, eventIDs, r.At)
		if err != nil {
			return err
		}
		var ref relay.Ref
		var state int
		_, err = pgx.ForEachRow(rows, []any{&ref.ID, &ref.EventID, &state}, func() error {
			*now.field(state)++
			if state == 0 || state == 3 {
				still = append(still, ref)
			} else {
				*closed.field(state)++
			}
			return nil
		})
		return err
	})
	if err == nil {
		*open = still
	}
	return now, err
}

func (o *Outcome) field(state int) *int {
	return []*int{&o.Pending, &o.Replaced, &o.Again, &o.Released, &o.Sent, &o.Gone}[state]
}
