package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// growthScenarios are a steady load for so long that the server cleans up after it, as its settings and the table's
// have it: how far do the table and its indexes grow, and what does that do to the latency?
func (o options) growthScenarios() []Scenario {
	const per, rate = 10, 5000
	return []Scenario{{
		name:   "growth",
		about:  fmt.Sprintf("%s events at 5,000 events/s in transactions of 10", digits(float64(o.size.Growing))),
		rounds: 1, usual: []string{"posthaste", "posthaste-delete"},
		fits: func(t traits) bool { return t.keepsUp() && t.settles },
		run: func(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
			length := time.Duration(g.size.Growing) * time.Second / rate
			l := usual(0)
			l.run = per
			return g.inPlace(ctx, l, s, func(p place) ([]Figure, error) {
				return p.growth(ctx, func() ([]Figure, error) { return p.steady(ctx, p, s, per, rate, length) })
			})
		},
	}}
}

// growth watches the table during a load.
func (p place) growth(ctx context.Context, load func() ([]Figure, error)) (figures []Figure, err error) {
	db, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return nil, fmt.Errorf("watch the table: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	most := make(chan girth, 1)
	go func() { most <- widest(watching, db) }()
	figures, err = load()
	stop()
	peak := <-most
	if err != nil {
		return nil, err
	}
	if peak.err != nil {
		return nil, fmt.Errorf("watch the table: %w", peak.err)
	}
	end := girthOf(ctx, p.db)
	if _, err := p.db.Exec(ctx, "vacuum full outbox_event"); err != nil {
		return nil, fmt.Errorf("make the table as small as it can be: %w", err)
	}
	least := girthOf(ctx, p.db)
	if err := errors.Join(end.err, least.err); err != nil {
		return nil, fmt.Errorf("measure the table: %w", err)
	}
	mebibytes := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	return append(figures,
		Figure{Name: "table", Unit: "MiB", Value: mebibytes(end.table)},
		Figure{Name: "indexes", Unit: "MiB", Value: mebibytes(end.indexes)},
		Figure{Name: "both", Unit: "of the least", Value: float64(end.table+end.indexes) /
			float64(least.table+least.indexes), Plain: true},
		Figure{Name: "partial index at most", Unit: "MiB", Value: mebibytes(peak.partial)},
		Figure{Name: "dead rows at most", Value: float64(peak.dead)},
		Figure{Name: "vacuums", Value: float64(end.vacuums), Plain: true},
	), nil
}

// girth is how large the outbox is, in bytes and rows.
type girth struct {
	table, indexes, partial, dead, vacuums int64
	err                                    error
}

const girthSQL = `
select pg_table_size('outbox_event'), pg_indexes_size('outbox_event'),
    (select max(pg_relation_size(indexrelid)) from pg_index
     where indrelid = 'outbox_event'::regclass and indpred is not null),
    n_dead_tup, autovacuum_count
from pg_stat_user_tables where relid = 'outbox_event'::regclass`

func girthOf(ctx context.Context, db *pgx.Conn) (g girth) {
	g.err = db.QueryRow(ctx, girthSQL).Scan(&g.table, &g.indexes, &g.partial, &g.dead, &g.vacuums)
	return g
}

// widest looks once a second until the context ends.
func widest(ctx context.Context, db *pgx.Conn) (most girth) {
	for {
		now := girthOf(context.WithoutCancel(ctx), db)
		most.partial, most.dead = max(most.partial, now.partial), max(most.dead, now.dead)
		most.err = now.err
		if most.err != nil || !pause(ctx, time.Second) {
			return most
		}
	}
}
