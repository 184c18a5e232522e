package check

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Querier is the part of a connection or pool that the checker needs.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ReadTable reads the whole outbox table; its name is as it stands in SQL.
func ReadTable(ctx context.Context, db Querier, table string) ([]Event, error) {
	// By way of to_jsonb the statement also fits a table without the optional column.
	rows, err := db.Query(ctx, `
		select id, event_id::text, aggregate_type, aggregate_id, event_type, topic, partition_key, payload::text,
			created_at, published_at is not null, coalesce(to_jsonb(o) -> 'headers', 'null')::text
		from `+table+` o`)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Event, error) {
		var e Event
		var headers string
		err := row.Scan(&e.ID, &e.EventID, &e.AggregateType, &e.AggregateID, &e.Type, &e.Topic, &e.Key, &e.Value,
			&e.CreatedAt, &e.Published, &headers)
		if err != nil {
			return e, err
		}
		return e, json.Unmarshal([]byte(headers), &e.Headers)
	})
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	return events, nil
}

// Unpublished reads the ids of the events that are not published, as one snapshot.
func Unpublished(ctx context.Context, db Querier, table string) (map[string]bool, error) {
	rows, err := db.Query(ctx, `select event_id::text from `+table+` where published_at is null`)
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
