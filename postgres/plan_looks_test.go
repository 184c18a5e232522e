package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// explainLooks looks at the plans of those who only look, under the settings that they make: each walks along an index,
// the partial one where that is what is wanted.
func explainLooks(t *testing.T, conn *pgx.Conn, names Names) {
	t.Helper()
	ctx := context.Background()
	narrow := EventFilter{Topic: "t", Key: "k", AggregateID: "k"}
	type statement struct {
		sql   string
		args  []any
		index string
	}
	statements := map[string]statement{}
	add := func(what, sql, index string, args ...any) { statements[what] = statement{sql, args, index} }
	for what, q := range map[string]EventList{
		"newest":             {},
		"oldest":             {OldestFirst: true, Above: 100},
		"filtered":           {EventFilter: narrow, Below: 40000},
		"unpublished":        {EventFilter: EventFilter{State: EventsUnpublished}},
		"oldest unpublished": {EventFilter: EventFilter{State: EventsUnpublished, Topic: "t"}, OldestFirst: true},
	} {
		sql, args := q.statement(100)
		index := "outbox_event_pkey"
		if q.State == EventsUnpublished {
			index = "outbox_event_id_idx"
		}
		add(what, sql, index, args...)
	}
	add("count", (&Outbox{Names: names}).backlogStatement(), "outbox_event_id_idx", MaxCounted+1)
	fill := strings.NewReplacer("{{match}}", "topic = 't'")
	add("new", fill.Replace(strings.Replace(followSQL, "{{rows}}", newRowsSQL, 1)), "outbox_event_pkey", 5000,
		int64(49000))
	add("gaps", fill.Replace(strings.Replace(followSQL, "{{rows}}", gapRowsSQL, 1)), "outbox_event_pkey", 5000,
		[]int64{5, 100}, []int64{6, 200})
	e := &Events{names: names, lacks: []string{"headers"}}
	add("rows", e.rowsStatement(true)+"{{id}} = any($1::bigint[])", "outbox_event_pkey", []int64{1, 2, 3})
	add("event id", e.rowsStatement(true)+"{{event_id}} = $1 and {{topic}} = 't'", "outbox_event_event_id_key",
		pgtype.UUID{Valid: true})

	for what, p := range map[string]Page{
		"parked": {Limit: 21}, "oldest parked": {Limit: 21, OldestFirst: true, Above: 7},
	} {
		sql, args := (&ParkedList{ParkedFilter: ParkedFilter{Topic: "t*", Class: "refused"}}).statement(1, p)
		add(what, sql, "parked_pkey", args...)
	}
	add("parked count", parkedCountSQL, "parked_request", int32(1), 100_001, 100_000)
	for kind, match := range waitingMatches {
		add(fmt.Sprintf("what waits in scope %d", kind), strings.ReplaceAll(waitingSQL, "{{match}}", match),
			"outbox_event_id_idx", int64(5), 100_000, []string{"a"}, []string{"b"}, []string{"c"})
	}

	for what, s := range statements {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			err := looking(ctx, conn, lookLimit, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "set local plan_cache_mode = "+mode); err != nil {
					return err
				}
				plan, err := planOf(ctx, tx, names.sql(s.sql), s.args)
				if err != nil {
					return err
				}
				for _, bad := range []string{"Seq Scan", "Sort", "Bitmap"} {
					if strings.Contains(plan, bad) {
						t.Errorf("look %s, %s: the plan has a %s:\n%s", what, mode, bad, plan)
					}
				}
				if !strings.Contains(plan, s.index) {
					t.Errorf("look %s, %s: the plan does not use %s:\n%s", what, mode, s.index, plan)
				}
				return nil
			})
			if err != nil {
				t.Errorf("look %s: %v", what, err)
			}
		}
	}
}
