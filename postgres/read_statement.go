package postgres

import (
	"slices"
	"strconv"
	"strings"

	"posthaste.dev/posthaste/relay"
)

// readSQL reads unpublished events in id order. Plan: one walk over the partial index from the lowest id wanted, and
// filters on the rows it meets. The filters are written so that the walk's order survives: NOT IN over an uncorrelated
// subselect is a hashed subplan, where a join would let the planner sort the whole backlog before it counts to the
// limit.
const readSQL = `
select {{id}}, {{event_id}}, {{aggregate_type}}, {{aggregate_id}}, {{event_type}}, {{topic}}, {{partition_key}},
       {{payload}}::text, {{created_at}}, hashtext({{partition_key}}) & $3, {{headers}}::text
from {{table}} e
where {{published_at}} is null and {{id}} > $1{{wide}} and {{id}} <= $2{{wide}}`

// The filters that a read may have beside. "is true" and a subselect with a limit keep the planner from making joins of
// them. What is parked is looked up for each row that all else lets pass, so it costs what is read and not what is
// parked. It makes wait what comes behind it, not what has a lower id and came into view later.
const (
	lanesFilter   = ` and get_bit({{arg}}::bytea, hashtext({{partition_key}}) & $3) = 1`
	withoutFilter = ` and {{id}} not in (select unnest({{arg}}::bigint[]))`
	choiceCase    = ` when {{topic}} like {{arg}} then {{arg}}::boolean`
	readTail      = ` order by {{id}} limit {{arg}}`

	// Of scopes, one for each kind.
	topicsMatch     = `{{topic}} in (select unnest({{arg}}::text[]))`
	keysMatch       = `({{topic}}, {{partition_key}}) in (select * from unnest({{arg}}::text[], {{arg}}::text[]))`
	allKeysMatch    = `{{partition_key}} in (select unnest({{arg}}::text[]))`
	aggregatesMatch = `({{aggregate_type}}, {{aggregate_id}}, {{partition_key}}) in (
    select * from unnest({{arg}}::text[], {{arg}}::text[], {{arg}}::text[]))`
	eventsMatch = `{{id}} in (select unnest({{arg}}::bigint[]))`

	parkedKeyFilter = ` and (
    select true from {{schema}}.parked p
    where p.outbox = {{base}} and p.scope = 'key' and hashtext(p.key) = hashtext(e.{{partition_key}})
      and p.key = e.{{partition_key}} and p.topic = e.{{topic}} and p.id <= e.{{id}}
    limit 1) is null`
	parkedAggregateFilter = ` and (
    select true from {{schema}}.parked p
    where p.outbox = {{base}} and p.scope = 'aggregate'
      and hashtext(p.aggregate_id) = hashtext(e.{{aggregate_id}})
      and p.aggregate_id = e.{{aggregate_id}} and p.aggregate_type = e.{{aggregate_type}}
      and p.key = e.{{partition_key}} and p.id <= e.{{id}} limit 1) is null`
	parkedEventFilter = ` and (e.{{id}} > {{arg}}::bigint or (
    select true from {{schema}}.parked p
    where p.outbox = {{base}} and p.id = e.{{id}} and p.scope = 'event'
      and p.event_id = e.{{event_id}} limit 1) is null)`
)

// eventReader makes reads into SQL and rows into events.
type eventReader struct {
	sql    readParts
	shared map[string]string
}

// readParts are the parts of the statement, with the columns' names.
type readParts struct {
	base, lanes, without, choice, tail         string
	topics, keys, allKeys, aggregates, events  string
	parkedKeys, parkedAggregates, parkedEvents string
}

// newReader fills the columns' names in once; one that the table has not reads as null.
func newReader(outbox *Outbox) *eventReader {
	n := outbox.Names
	n.Columns = n.Columns.Without(outbox.Lacks...)
	if !outbox.HasHeaders {
		n.Columns = n.Columns.Without("headers")
	}
	fill := func(text string) string {
		for column, null := range map[string]string{"aggregate_type": "null::text", "aggregate_id": "null::text",
			"event_type": "null::text", "created_at": "null::timestamptz", "headers": "null"} {
			if !n.Columns.Has(column) {
				text = strings.NewReplacer("e.{{"+column+"}}", null, "{{"+column+"}}", null).Replace(text)
			}
		}
		return n.sql(outbox.widen(text), "{{base}}", strconv.Itoa(int(outbox.BaseID)))
	}
	return &eventReader{shared: make(map[string]string), sql: readParts{
		base: fill(readSQL), lanes: fill(lanesFilter), without: fill(withoutFilter), choice: fill(choiceCase),
		tail: fill(readTail), topics: fill(topicsMatch), keys: fill(keysMatch), allKeys: fill(allKeysMatch),
		aggregates: fill(aggregatesMatch), events: fill(eventsMatch), parkedKeys: fill(parkedKeyFilter),
		parkedAggregates: fill(parkedAggregateFilter), parkedEvents: fill(parkedEventFilter),
	}}
}

// statement is a read's SQL as it grows, and its arguments.
type statement struct {
	strings.Builder
	args []any
}

// add appends a part whose {{arg}}s the values stand for.
func (s *statement) add(part string, values ...any) {
	for _, v := range values {
		s.args = append(s.args, v)
		part = strings.Replace(part, "{{arg}}", "$"+strconv.Itoa(len(s.args)), 1)
	}
	s.WriteString(part)
}

// choose leaves out the topics that are not wanted; one is the line of a case.
func (s *statement) choose(one string, wanted relay.Choice) {
	s.add(" and case")
	for _, c := range wanted {
		s.add(one, like(c.Match), c.Want)
	}
	s.add(" else false end")
}

// statement returns a read's SQL and arguments. A filter that has nothing to leave out is left out itself, so that it
// costs nothing; the texts are few and constant, so each is prepared once.
func (r *eventReader) statement(q *relay.Read, claim bool) (string, []any) {
	s := &statement{args: []any{q.Above, q.UpTo, int32(max(q.Lanes.Total(), 1) - 1)}}
	s.WriteString(r.sql.base)
	if !claim && !q.Lanes.All() {
		s.add(r.sql.lanes, q.Lanes.Bits())
	}
	if len(q.Without) > 0 {
		s.add(r.sql.without, q.Without)
	}
	for _, match := range r.matches(q.Held) {
		s.add(" and ("+match.sql+") is not true", match.values...)
	}
	for i, match := range r.matches(q.Only) {
		if i == 0 {
			s.add(" and ("+match.sql, match.values...)
		} else {
			s.add(" or "+match.sql, match.values...)
		}
	}
	if len(q.Only) > 0 {
		s.add(") is true")
	}
	for _, kind := range q.Parked {
		switch kind {
		case relay.ScopeKey:
			s.add(r.sql.parkedKeys)
		case relay.ScopeAggregate:
			s.add(r.sql.parkedAggregates)
		case relay.ScopeEvent:
			s.add(r.sql.parkedEvents, q.ParkedUpTo)
		}
	}
	for _, choice := range q.Wanted {
		s.choose(r.sql.choice, choice)
	}
	s.add(r.sql.tail, q.Limit)
	if claim {
		s.add(" for update skip locked")
	}
	return s.String(), s.args
}

// scopeMatch is a condition on rows, and its arguments.
type scopeMatch struct {
	sql    string
	values []any
}

// matches returns the conditions that rows of the scopes meet, one for each kind that is among them.
func (r *eventReader) matches(scopes []relay.Scope) (found []scopeMatch) {
	var topics, keyTopics, keys, allKeys, aggregateTypes, aggregates, aggregateKeys []string
	var ids []int64
	for _, s := range scopes {
		switch s.Kind {
		case relay.ScopeTopic, relay.ScopePartition:
			topics = append(topics, s.Topic)
		case relay.ScopeKey:
			keyTopics, keys = append(keyTopics, s.Topic), append(keys, s.Key)
		case relay.ScopeKeyOfAll:
			allKeys = append(allKeys, s.Key)
		case relay.ScopeAggregate:
			aggregateTypes, aggregates = append(aggregateTypes, s.AggregateType), append(aggregates, s.AggregateID)
			aggregateKeys = append(aggregateKeys, s.Key)
		case relay.ScopeEvent:
			ids = append(ids, s.ID)
		}
	}
	add := func(n int, sql string, values ...any) {
		if n > 0 {
			found = append(found, scopeMatch{sql, values})
		}
	}
	if slices.ContainsFunc(scopes, func(s relay.Scope) bool { return s.Kind == relay.ScopeAll }) {
		add(1, "true")
	}
	add(len(topics), r.sql.topics, topics)
	add(len(keys), r.sql.keys, keyTopics, keys)
	add(len(allKeys), r.sql.allKeys, allKeys)
	add(len(aggregates), r.sql.aggregates, aggregateTypes, aggregates, aggregateKeys)
	add(len(ids), r.sql.events, ids)
	return found
}

// like is a topic pattern in SQL's words.
func like(p relay.Pattern) string {
	return strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`, "*", "%").Replace(string(p))
}
