package postgres

import (
	"context"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// Waiting is a number of unpublished events.
type Waiting struct {
	Events int
	// Capped says that there may be more: only the first MaxCounted unpublished events from the scope's beginning on
	// were looked at.
	Capped bool
}

// waitingSQL walks over unpublished events along the partial index and counts those of each scope. What the walk costs
// beyond its limit, dead entries that a long transaction elsewhere keeps, the statement's timeout bounds.
const waitingSQL = `
select coalesce(s.n, 0), count(*) from (
    select {{topic}} as topic, {{partition_key}} as key, {{aggregate_type}} as aggregate_type,
           {{aggregate_id}} as aggregate_id
    from {{table}} where {{published_at}} is null and {{id}} >= $1::bigint order by {{id}} limit $2) w
left join unnest($3::text[], $4::text[], $5::text[]) with ordinality s (a, b, c, n) on {{match}}
group by 1`

// waitingMatches says how a row is one of a scope.
var waitingMatches = map[relay.ScopeKind]string{
	relay.ScopeAll:       "true",
	relay.ScopeTopic:     "w.topic = s.a",
	relay.ScopeKey:       "w.topic = s.a and w.key = s.c",
	relay.ScopeKeyOfAll:  "w.key = s.c",
	relay.ScopeAggregate: "w.aggregate_type = s.a and w.aggregate_id = s.b and w.key = s.c",
}

// countWaiting counts the unpublished events from an id on in scopes of one kind.
func (op *Operator) countWaiting(ctx context.Context, kind relay.ScopeKind, from int64,
	scopes []relay.Scope) ([]Waiting, error) {
	events, err := op.table(ctx)
	if err != nil {
		return nil, err
	}
	a, b, c := make([]string, len(scopes)), make([]string, len(scopes)), make([]string, len(scopes))
	for i, s := range scopes {
		a[i], b[i], c[i] = s.Topic, s.AggregateID, s.Key
		if kind == relay.ScopeAggregate {
			a[i] = s.AggregateType
		}
	}
	counts, seen := make([]Waiting, len(scopes)), 0
	sql := events.sql(strings.ReplaceAll(waitingSQL, "{{match}}", waitingMatches[kind]))
	err = op.looking(ctx, "count what waits", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, from, MaxCounted, a, b, c)
		if err != nil {
			return err
		}
		var n, events int
		_, err = pgx.ForEachRow(rows, []any{&n, &events}, func() error {
			seen += events
			if n > 0 {
				counts[n-1].Events = events
			}
			return nil
		})
		return err
	})
	for i := range counts {
		counts[i].Capped = seen >= MaxCounted
	}
	return counts, err
}

// CountWaiting counts the unpublished events of a scope that a pause can be about.
func (op *Operator) CountWaiting(ctx context.Context, scope relay.Scope) (Waiting, error) {
	counts, err := op.countWaiting(ctx, scope.Kind, math.MinInt64, []relay.Scope{scope})
	if err != nil {
		return Waiting{}, err
	}
	return counts[0], nil
}
