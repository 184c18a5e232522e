package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// explainSides looks at the plans of what a relay does every second, beside much that is parked: none reads all of a
// large table, before statistics were gathered or after.
func explainSides(t *testing.T, conn *pgx.Conn, names Names) {
	t.Helper()
	ctx := context.Background()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, names.sql(sql)); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run(`alter table {{schema}}.parked set (autovacuum_enabled = off);
insert into {{schema}}.outbox (name, lock_class, created, lanes) values ({{literal}}, 1, true, 64);
insert into {{schema}}.parked (outbox, id, event_id, topic, key, aggregate_type, aggregate_id, event_type, scope, class,
                               reason, attempts)
select 1, id, event_id, topic, partition_key, aggregate_type, aggregate_id, event_type,
       case when id % 10 = 0 then 'event' else 'key' end, 'refused', 'no reason', 1
from {{table}}`)
	defer run(`delete from {{schema}}.outbox`)

	outbox := &Outbox{Names: names, ID: 1, BaseID: 1, MayDelete: true}
	texts := newReleaseTexts(outbox)
	x := relay.Exchange{Member: 7, Wanted: relay.Choice{{Match: "x*"}, {Match: "*", Want: true}}}
	of := func(text string, more ...any) statement { return *releaseStatement(text, x, 500, more...) }
	plain := func(sql string, args ...any) statement {
		s := statement{args: args}
		s.add(sql)
		return s
	}
	for what, s := range map[string]statement{
		"retry":       of(texts.retry),
		"discard":     of(texts.discard),
		"ghosts":      of(texts.ghosts, int64(0)),
		"next ghosts": plain(texts.nextGhosts, int64(0), 500),
		"orders":      plain(names.sql(ordersSQL, "{{outbox}}", "$1"), 1),
		"view":        plain(viewOf(outbox), 1, 2, 3, true, 1),
	} {
		for n, mode := range []string{"force_generic_plan", "force_custom_plan", "force_generic_plan"} {
			if n == 2 {
				run("analyze {{schema}}.parked")
			}
			run("set plan_cache_mode = " + mode)
			plan, err := planOf(ctx, conn, s.String(), s.args)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, large := range []string{"parked", "outbox_event"} {
				if bad := "Seq Scan on " + large; strings.Contains(plan, bad) {
					t.Errorf("%s, %s: the plan has a %s:\n%s", what, mode, bad, plan)
				}
			}
		}
	}
}
