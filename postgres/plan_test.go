package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/relay"
)

// TestPlansDoNotDegrade looks at the plans of the hot statements over a table that PostgreSQL has no statistics of, as
// generic and as custom plans, with ids of either size: no statement may read or sort the backlog.
func TestPlansDoNotDegrade(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"13": testenv.DatabaseURL13, "15": testenv.DatabaseURL,
		"18": testenv.DatabaseURL18} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			conn, err := pgx.Connect(ctx, testenv.Require(t, key))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(ctx) }()
			run := func(sql string, args ...any) {
				t.Helper()
				if _, err := conn.Exec(ctx, sql, args...); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			schema := "plans_" + strings.ReplaceAll(uuid.NewString(), "-", "")
			run("create schema " + schema)
			defer run("drop schema " + schema + " cascade")
			names, err := ParseNames(schema+".outbox_event", schema)
			if err != nil {
				t.Fatal(err)
			}
			run(createTable(names, false).SQL)
			run(names.sql(migrationFile("0001_side_tables.up")))
			run(names.sql("create index on {{table}} (id) where published_at is null"))
			run(names.sql(`alter table {{table}} set (autovacuum_enabled = off)`)) // nobody gathers statistics
			run(names.sql(`
insert into {{table}} (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', 'k' || n % 1000, 'order.confirmed.v1', '{}', 't', 'k' || n % 1000
from generate_series(1, 50000) n`))

			without := make([]int64, 2000)
			for i := range without {
				without[i] = int64(i)
			}
			lanes := relay.NewLaneSet(64, 1, 2, 3)
			all := relay.NewLaneSet(1, 0)
			explain := func(what, mode, sql string, args []any) {
				t.Helper()
				run("set plan_cache_mode = " + mode)
				plan, err := planOf(ctx, conn, sql, args)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				plan = plan[:min(len(plan), 1000)]
				for _, bad := range []string{"Seq Scan", "Sort", "Hash Join", "Hash Anti Join", "Hash Semi Join",
					"Merge", "Nested Loop"} {
					if strings.Contains(plan, bad) {
						t.Errorf("%s, %s: the plan has a %s:\n%s", what, mode, bad, plan)
					}
				}
				if !strings.Contains(plan, "Index Scan") {
					t.Errorf("%s, %s: no index is used:\n%s", what, mode, plan)
				}
			}
			explainLooks(t, conn, names)
			explainSides(t, conn, names)
			scopes := []relay.Scope{{Kind: relay.ScopeTopic, Topic: "x"}, {Kind: relay.ScopeKey, Topic: "t", Key: "x"},
				{Kind: relay.ScopeKeyOfAll, Key: "y"},
				{Kind: relay.ScopeAggregate, AggregateType: "a", AggregateID: "z", Key: "z"},
				{Kind: relay.ScopeEvent, ID: 7}}
			for _, ids := range []string{"bigint", "integer"} {
				run(names.sql("alter table {{table}} alter id type " + ids))
				outbox := &Outbox{Names: names, ShortIDs: ids == "integer"}
				reader := newReader(outbox)
				for what, q := range map[string]relay.Read{
					"read all":   {Lanes: all},
					"read lanes": {Lanes: lanes},
					"read with everything left out": {Lanes: lanes, Without: without, Held: scopes, ParkedUpTo: 20,
						Parked: []relay.ScopeKind{relay.ScopeKey, relay.ScopeAggregate, relay.ScopeEvent}},
					"read nothing else": {Lanes: lanes, Without: without, Only: scopes},
					"read some topics": {Lanes: lanes,
						Wanted: []relay.Choice{{{Match: "x*"}, {Match: "*", Want: true}}}},
					"claim": {},
				} {
					q.Above, q.UpTo, q.Limit = 10, math.MaxInt64, 2000
					sql, args := reader.statement(&q, what == "claim")
					explain(what, "force_generic_plan", sql, args)
					explain(what, "force_custom_plan", sql, args)
				}
				ids, eventIDs := split(make([]relay.Ref, 2000))
				for what, sql := range map[string]string{"mark": markSQL, "delete": deleteSQL} {
					// A settle forces its generic plan.
					explain(what, "force_generic_plan", names.sql(outbox.widen(sql)), []any{ids, eventIDs})
				}
			}
		})
	}
}

// planOf returns the plan of a prepared statement in words.
func planOf(ctx context.Context, db interface {
	reader
	executor
}, sql string, args []any) (string, error) {
	if _, err := db.Exec(ctx, "prepare planned as "+sql); err != nil {
		return "", err
	}
	literals := make([]string, len(args))
	for i, a := range args {
		literals[i] = literalOf(a)
	}
	rows, err := db.Query(ctx, "explain execute planned ("+strings.Join(literals, ", ")+")")
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	_, err = db.Exec(ctx, "deallocate planned")
	return strings.Join(lines, "\n"), err
}

// literalOf writes an argument as SQL.
func literalOf(a any) string {
	switch a := a.(type) {
	case string:
		return "'" + a + "'"
	case []byte:
		return fmt.Sprintf(`'\x%x'`, a)
	case []int64:
		return "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(a), " ", ","), "[]") + "}'"
	case []string:
		return "'{" + strings.Join(a, ",") + "}'"
	case pgtype.UUID:
		return "'" + uuid.UUID(a.Bytes).String() + "'"
	case []pgtype.UUID:
		texts := make([]string, len(a))
		for i, id := range a {
			texts[i] = uuid.UUID(id.Bytes).String()
		}
		return "'{" + strings.Join(texts, ",") + "}'"
	}
	return fmt.Sprint(a)
}
