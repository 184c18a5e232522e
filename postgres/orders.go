package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/pgname"
	"posthaste.dev/posthaste/relay"
)

// ordersSQL is one row whatever is parked: each part of it ends at the first row of an index. The order is that of the
// index, so that no statistics, which may be old, make a walk over the table look as short. Looks of before the last
// minute were seen by every relay, or are of no use any more.
const ordersSQL = `
select exists (select from {{schema}}.parked where outbox = {{outbox}} and scope = 'key'
               order by outbox, hashtext(key) limit 1 offset 0) as keys,
       exists (select from {{schema}}.parked where outbox = {{outbox}} and scope = 'aggregate'
               order by outbox, hashtext(aggregate_id) limit 1 offset 0) as aggregates,
       (select id from {{schema}}.parked where outbox = {{outbox}} and scope = 'event'
        order by outbox desc, id desc limit 1) as highest,
       exists (select from {{schema}}.parked where outbox = {{outbox}} and request is not null
               order by outbox, id limit 1 offset 0) as requests,
       (select jsonb_agg(jsonb_build_object('ID', id, 'Topic', topic, 'Key', key, 'Reason', reason) order by id)
        from {{schema}}.pause where outbox = {{outbox}}) as pauses,
       (select jsonb_agg(jsonb_build_object('Topic', topic, 'Asked', asked_at))
        from {{schema}}.topic_look
        where outbox = {{outbox}} and asked_at > clock_timestamp() - interval '1 minute') as looks`

// ordersRow is what ordersSQL returns.
type ordersRow struct {
	keys, aggregates, requests bool
	highest                    *int64
	pauses                     []struct {
		ID         int
		Topic, Key *string
		Reason     string
	}
	looks []relay.TopicLook
}

func (r *ordersRow) dest() []any {
	return []any{&r.keys, &r.aggregates, &r.highest, &r.requests, &r.pauses, &r.looks}
}

func (r *ordersRow) orders() relay.Orders {
	o := relay.Orders{ParkedUpTo: math.MinInt64, Requests: r.requests, Looks: r.looks}
	if r.keys {
		o.Parked = append(o.Parked, relay.ScopeKey)
	}
	if r.aggregates {
		o.Parked = append(o.Parked, relay.ScopeAggregate)
	}
	if r.highest != nil {
		o.Parked, o.ParkedUpTo = append(o.Parked, relay.ScopeEvent), *r.highest
	}
	for _, p := range r.pauses {
		o.Pauses = append(o.Pauses, relay.Pause{ID: p.ID, Scope: pauseScope(p.Topic, p.Key), Reason: p.Reason})
	}
	return o
}

// Orders is one statement.
func (s *session) Orders(ctx context.Context) (relay.Orders, error) {
	var row ordersRow
	if err := s.conn.QueryRow(ctx, s.orders, s.outbox.BaseID).Scan(row.dest()...); err != nil {
		return relay.Orders{}, fmt.Errorf("read what is parked and paused: %w", err)
	}
	return row.orders(), nil
}

// ownedSQL are the lanes of a member, locked so that none moves before the transaction has ended: a park, or a release,
// that began while its lane was ours must not be done after another one owns it.
const ownedSQL = `owned as (
    select lane from {{schema}}.lane where outbox = {{me}} and owner = $1 for share)`

// parkSQL sets events aside, as far as their lanes are owned and their rows are unpublished still. Member 0 has no
// lanes and needs none: it has the rows locked.
const parkSQL = `
with ` + ownedSQL + `,
given as (
    select * from unnest($2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[], $11::text[], $12::text[], $13::int[])
        g (id, event_id, lane, topic, key, aggregate_type, aggregate_id, event_type, scope, class, reason, attempts))
insert into {{schema}}.parked (outbox, id, event_id, topic, key, aggregate_type, aggregate_id, event_type, scope, class,
                               reason, attempts)
select {{base}}, g.id, g.event_id, g.topic, g.key, g.aggregate_type, g.aggregate_id, g.event_type, g.scope, g.class,
       g.reason, g.attempts
from given g
where ($1 = 0 or g.lane in (select lane from owned))
  and exists (
    select from {{table}} e where e.{{id}} = g.id and e.{{event_id}} = g.event_id and e.{{published_at}} is null)
on conflict (outbox, id) do update set
    event_id = excluded.event_id, topic = excluded.topic, key = excluded.key,
    aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id, event_type = excluded.event_type,
    scope = excluded.scope, class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
    parked_at = excluded.parked_at, request = null, requested_by = null, requested_at = null, request_reason = null
returning id`

// dueSQL finds parked events in the lanes that are owned. What is released needs no more than that: each parked event
// makes wait what has a higher id than its own, so in whatever order several of a key go, what waits for the last one
// has a higher id, too.
const dueSQL = `
with ` + ownedSQL + `,
due as (
    select p.* from {{schema}}.parked p
    where p.outbox = {{base}} and {{which}} and ($1 = 0 or hashtext(p.key) & (
        select lanes - 1 from {{schema}}.outbox where id = {{me}}) in (select lane from owned)){{wanted}}
    order by p.id limit $2 for update)`

// The parked events that are looked for.
const (
	askedToRetry   = `p.request = 'retry'`
	askedToDiscard = `p.request = 'discard'`
	// ghosts are published, by a relay that had been given up, or gone. They are looked for among the next few. A range
	// and a subquery that is no join leave no plan but two walks along indexes: a generic plan for a list of ids, whose
	// length it doesn't know, read all that is parked, 45 ms for 110,000.
	ghosts = `p.id > $3 and p.id <= (select max(id) from (
        select id from {{schema}}.parked where outbox = {{base}} and id > $3 order by id limit $2) few)
      and not exists (
        select from {{table}} e where e.{{id}} = p.id and e.{{event_id}} = p.event_id and e.{{published_at}} is null
        offset 0)`
	nextGhostsSQL = `
select coalesce(max(id), 0), count(*)
from (select id from {{schema}}.parked where outbox = {{base}} and id > $1 order by id limit $2) p`
)

const (
	unparkSQL = `
delete from {{schema}}.parked p using due d where p.outbox = d.outbox and p.id = d.id
returning p.id, p.scope, p.topic, p.key, p.aggregate_type, p.aggregate_id, p.attempts, `

	// discardedSQL keeps the whole event that it deletes, by the columns that the relay may read: a service's own stay
	// out.
	discardedSQL = `,
gone as (
    delete from {{table}} e using due d
    where e.{{id}} = d.id and e.{{event_id}} = d.event_id and e.{{published_at}} is null
    returning e.{{id}} as id, jsonb_build_object({{event}}) as event),
told as (
    insert into {{schema}}.audit (outbox, actor, act, target, events, reason)
    select {{literal}}, coalesce(d.requested_by, ''), 'discarded', gone.event, 1, d.request_reason
    from gone join due d using (id))`

	// mayNotSQL answers a request that the relay has no right to carry out.
	mayNotSQL = `,
told as (
    insert into {{schema}}.audit (outbox, actor, act, target, events, reason)
    select {{literal}}, current_user, 'discard refused', jsonb_build_object('id', id, 'event_id', event_id), 1,
           'role ' || quote_ident(current_user) || ' of the relay may not delete from ' || {{literal}} ||
           '; grant it that'
    from due),
answered as (
    update {{schema}}.parked p set request = null from due d where p.outbox = d.outbox and p.id = d.id)
select 0, '', '', '', '', '', 0, true where false`

	wantedCase = ` when p.topic like {{arg}} then {{arg}}::boolean`
)

// releaseTexts are the statements that release parked events, the names filled in.
type releaseTexts struct{ discard, retry, ghosts, nextGhosts string }

func newReleaseTexts(o *Outbox) releaseTexts {
	fill := func(which, what string) string {
		return o.fill(strings.ReplaceAll(dueSQL, "{{which}}", which) + what)
	}
	discard := discardedSQL + unparkSQL + "true"
	if !o.MayDelete {
		discard = mayNotSQL
	}
	return releaseTexts{fill(askedToDiscard, discard), fill(askedToRetry, unparkSQL+"false"),
		fill(ghosts, unparkSQL+"true"), o.fill(nextGhostsSQL)}
}

// fill fills names in as Names.sql does, and which row of the side tables the outbox is: {{me}} with its group,
// {{base}} without.
func (o *Outbox) fill(text string) string {
	return o.Names.sql(o.widen(text), "{{me}}", strconv.Itoa(int(o.ID)), "{{base}}", strconv.Itoa(int(o.BaseID)),
		"{{event}}", o.eventPairs())
}

// eventPairs are the usual names of the columns that the table has, each with its value, as jsonb_build_object takes
// them.
func (o *Outbox) eventPairs() string {
	var pairs []string
	for _, usual := range pgname.ColumnNames() {
		lacks := slices.Contains(o.Lacks, usual) || !o.Names.Columns.Has(usual) || usual == "headers" && !o.HasHeaders
		if !lacks {
			pairs = append(pairs, literal(usual)+", e."+o.Names.Columns.SQL(usual))
		}
	}
	return strings.Join(pairs, ", ")
}

// queueRelease puts what operators want, and the search for ghosts, into a pipeline.
func (s *session) queueRelease(batch *pgx.Batch, x relay.Exchange, result *relay.Result) {
	if x.Requests > 0 {
		s.queueReleased(batch, s.release.discard, x, result, x.Requests)
		s.queueReleased(batch, s.release.retry, x, result, x.Requests)
	}
	if x.Ghosts > 0 {
		from := s.ghostsFrom
		batch.Queue(s.release.nextGhosts, from, x.Ghosts).QueryRow(func(row pgx.Row) error {
			var n int
			err := row.Scan(&s.ghostsFrom, &n)
			if n < x.Ghosts {
				s.ghostsFrom = math.MinInt64
			}
			return err
		})
		s.queueReleased(batch, s.release.ghosts, x, result, x.Ghosts, from)
	}
}

func (s *session) queueReleased(batch *pgx.Batch, text string, x relay.Exchange, result *relay.Result, limit int,
	more ...any) {
	st := releaseStatement(text, x, limit, more...)
	batch.Queue(st.String(), st.args...).Query(func(rows pgx.Rows) error {
		released, err := pgx.CollectRows(rows, scanReleased)
		result.Released = append(result.Released, released...)
		return err
	})
}

func releaseStatement(text string, x relay.Exchange, limit int, more ...any) *statement {
	st := &statement{args: append([]any{x.Member, limit}, more...)}
	head, tail, _ := strings.Cut(text, "{{wanted}}")
	st.add(head)
	if len(x.Wanted) > 0 {
		st.choose(wantedCase, x.Wanted)
	}
	st.add(tail)
	return st
}

// parkArgs are the arguments of parkSQL.
func parkArgs(member int, list []relay.Parking) []any {
	n := len(list)
	ids, eventIDs := split(refsOf(list))
	lanes, attempts := make([]int32, n), make([]int32, n)
	texts := make([][]string, 8)
	for i := range texts {
		texts[i] = make([]string, n)
	}
	for i, p := range list {
		lanes[i], attempts[i] = int32(p.Lane), int32(p.Attempts)
		for j, text := range []string{p.Topic, p.Key, p.AggregateType, p.AggregateID, p.EventType, p.Scope.String(),
			p.Class.String(), storable(p.Reason)} {
			texts[j][i] = text
		}
	}
	return []any{member, ids, eventIDs, lanes, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6],
		texts[7], attempts}
}

func refsOf(list []relay.Parking) []relay.Ref {
	refs := make([]relay.Ref, len(list))
	for i, p := range list {
		refs[i] = p.Ref
	}
	return refs
}

// storable is what PostgreSQL takes as text of a reason that came from anywhere.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
}

// scanReleased reads a row of retrySQL or discardSQL.
func scanReleased(row pgx.CollectableRow) (r relay.Released, err error) {
	var scope, topic, key, aggregateType, aggregateID string
	err = row.Scan(&r.ID, &scope, &topic, &key, &aggregateType, &aggregateID, &r.Attempts, &r.Gone)
	r.Scope = parkedScope(scope, r.ID, topic, key, aggregateType, aggregateID)
	return r, err
}
