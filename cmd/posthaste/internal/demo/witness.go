//go:build unix

package demo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The database as a witness, by plain SQL.

// row is an event as the table has it.
type row struct {
	id, topic, key, payload string
	published               bool
}

func readTable(ctx context.Context, db *pgxpool.Pool, table string) ([]row, error) {
	rows, err := db.Query(ctx, `
select event_id::text, topic, partition_key, payload::text, published_at is not null from `+table)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e row, err error) {
		return e, r.Scan(&e.id, &e.topic, &e.key, &e.payload, &e.published)
	})
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	return all, nil
}

func anyOpen(ctx context.Context, db *pgxpool.Pool, table string) (open bool, err error) {
	err = db.QueryRow(ctx, `select exists (select from `+table+` where published_at is null)`).Scan(&open)
	if err != nil {
		return false, fmt.Errorf("look for unpublished events: %w", err)
	}
	return open, nil
}

// openOf returns the unpublished events in the lanes of the relay that runs as process pid.
func openOf(ctx context.Context, db *pgxpool.Pool, table, side, pid string) (map[string]bool, error) {
	rows, err := db.Query(ctx, `
select e.event_id::text
from `+side+`.outbox o
join `+side+`.member m on m.outbox = o.id and m.name like '%/' || $1
join `+side+`.lane l on l.outbox = o.id and l.owner = m.id
join `+table+` e on hashtext(e.partition_key) & (o.lanes - 1) = l.lane
where e.published_at is null`, pid)
	if err != nil {
		return nil, fmt.Errorf("read unpublished events: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read unpublished events: %w", err)
	}
	open := make(map[string]bool, len(ids))
	for _, id := range ids {
		open[id] = true
	}
	return open, nil
}
