package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// Hold is a scope that waits, and why.
type Hold struct {
	Kind   HoldKind
	Scope  relay.Scope
	Since  time.Time // by the database clock; a relay's own for HoldTopic and HoldPartition
	Reason string

	// Of HoldParked.
	Parked    int   // events that are parked in the scope
	Requested int   // of them, those that relays are asked to retry or discard
	FirstID   int64 // the lowest id of theirs

	// Of HoldTopic and HoldPartition.
	Members []string // the relays that hold it
	Tries   int
	NextTry time.Time // zero: when the partition answers

	// Of HoldPause.
	Pause int
	By    string

	// Waiting are the unpublished events of the scope, those that are parked apart; nil where they can't be counted.
	Waiting *Waiting
}

// HoldKind says why a scope waits.
type HoldKind string

// The kinds.
const (
	HoldPause     HoldKind = "pause"     // an operator wants it
	HoldTopic     HoldKind = "topic"     // the topic is missing or may not be written
	HoldPartition HoldKind = "partition" // the partition does not answer
	HoldParked    HoldKind = "parked"    // an event was refused; with ScopeEvent alone, all such of a topic together
)

// HoldFilter says which holds are wanted. An empty field asks for nothing.
type HoldFilter struct {
	Topic relay.Pattern
	Key   *string
	Limit int // at most this many of HoldParked
}

// wants tells whether a scope may have events that the filter means.
func (f *HoldFilter) wants(s relay.Scope) bool {
	return (f.Topic == "" || s.Topic == "" || f.Topic.Match(s.Topic)) &&
		(f.Key == nil || s.Kind != relay.ScopeKey && s.Kind != relay.ScopeKeyOfAll || s.Key == *f.Key)
}

// Holds lists what waits: pauses, topics and partitions that relays hold, and what waits with parked events, in this
// order. Of the last it tells how many there are beside those listed.
//
// It costs a walk over the parked events, and one over at most MaxCounted unpublished events for each kind of scope.
func (op *Operator) Holds(ctx context.Context, f HoldFilter) (list []Hold, more int, err error) {
	pauses, err := op.Pauses(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range pauses {
		if f.wants(p.Scope) {
			list = append(list, Hold{Kind: HoldPause, Scope: p.Scope, Since: p.At, Reason: p.Reason, Pause: p.ID,
				By: p.By})
		}
	}
	relays, err := op.Relays(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, h := range HeldByMembers(relays) {
		if f.wants(h.Scope) {
			list = append(list, h)
		}
	}
	parked, total, err := op.heldByParked(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	list = append(list, parked...)
	return list, total - len(parked), op.fillWaiting(ctx, list)
}

// HeldByMembers merges what members hold for reasons of their own: a topic that is missing to one is so to others.
func HeldByMembers(relays []Relays) (list []Hold) {
	for _, r := range relays {
		for _, m := range r.Members {
			for _, w := range m.Waiting {
				h := Hold{Kind: HoldTopic, Scope: relay.Scope{Kind: relay.ScopeTopic, Topic: w.Topic}}
				if w.Partition != nil {
					h.Kind = HoldPartition
					h.Scope = relay.Scope{Kind: relay.ScopePartition, Topic: w.Topic, Partition: *w.Partition}
				}
				i := slices.IndexFunc(list, func(x Hold) bool { return x.Scope == h.Scope })
				if i < 0 {
					h.Since, h.Reason, h.NextTry = w.Since, w.Reason, w.NextTry
					list, i = append(list, h), len(list)
				}
				one := &list[i]
				one.Members = append(one.Members, m.Name)
				one.Tries = max(one.Tries, w.Tries)
				if w.Since.Before(one.Since) {
					one.Since = w.Since
				}
				if w.NextTry.Before(one.NextTry) {
					one.NextTry = w.NextTry
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Hold) int {
		if c := strings.Compare(a.Scope.Topic, b.Scope.Topic); c != 0 {
			return c
		}
		return int(a.Scope.Partition) - int(b.Scope.Partition)
	})
	return list
}

// heldSQL tells what waits with parked events, a row a scope, those with the lowest ids first. Single events, with
// which nothing waits, are one row a topic.
const heldSQL = `
with held as (
    select p.scope, case p.scope when 'aggregate' then '' else p.topic end as topic,
           case p.scope when 'event' then '' else p.key end as key,
           case p.scope when 'aggregate' then p.aggregate_type else '' end as aggregate_type,
           case p.scope when 'aggregate' then p.aggregate_id else '' end as aggregate_id,
           count(*) as parked, count(p.request) as requested, min(p.id) as first, min(p.first_at) as since{{from}}
    group by 1, 2, 3, 4, 5)
select h.scope, h.topic, h.key, h.aggregate_type, h.aggregate_id, h.parked, h.requested, h.first, h.since, p.reason,
       h.total
from (select held.*, count(*) over () as total from held order by first limit {{arg}}) h
join {{schema}}.parked p on p.outbox = {{arg}} and p.id = h.first
order by h.first`

func (op *Operator) heldByParked(ctx context.Context, f HoldFilter) (list []Hold, total int, err error) {
	s := &statement{}
	head, tail, _ := strings.Cut(heldSQL, "{{from}}")
	s.add(head+parkedFromSQL, op.outbox.BaseID)
	filter := ParkedFilter{Topic: f.Topic, Key: f.Key}
	filter.addTo(s)
	s.add(tail, f.Limit, op.outbox.BaseID)
	err = op.looking(ctx, "list holds", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, op.sql(s.String()), s.args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Hold, error) {
			h := Hold{Kind: HoldParked}
			var kind, topic, key, aggregateType, aggregateID string
			err := row.Scan(&kind, &topic, &key, &aggregateType, &aggregateID, &h.Parked, &h.Requested, &h.FirstID,
				&h.Since, &h.Reason, &total)
			h.Scope = parkedScope(kind, 0, topic, key, aggregateType, aggregateID)
			h.Scope.Topic = topic // also of single events, which are told by topic here
			return h, err
		})
		return err
	})
	return list, total, err
}

// fillWaiting counts what waits in each scope.
func (op *Operator) fillWaiting(ctx context.Context, list []Hold) error {
	for _, kind := range []relay.ScopeKind{relay.ScopeAll, relay.ScopeTopic, relay.ScopeKeyOfAll, relay.ScopeKey,
		relay.ScopeAggregate} {
		var scopes []relay.Scope
		var at []int
		from := int64(math.MaxInt64)
		for i, h := range list {
			if h.Scope.Kind != kind {
				continue
			}
			scopes, at = append(scopes, h.Scope), append(at, i)
			if h.Kind != HoldParked {
				h.FirstID = math.MinInt64
			}
			from = min(from, h.FirstID)
		}
		if scopes == nil {
			continue
		}
		counts, err := op.countWaiting(ctx, kind, from, scopes)
		if err != nil {
			return fmt.Errorf("count what waits: %w", err)
		}
		for i, w := range counts {
			h := &list[at[i]]
			w.Events = max(w.Events-h.Parked, 0)
			h.Waiting = &w
		}
	}
	return nil
}
