package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// runMarkBound reads what a relay needs and marks it, in one session, as fast as that goes. No relay that marks by one
// connection can be faster, since this one has no Kafka to wait for and no one to share with.
func runMarkBound(ctx context.Context, db *pgx.Conn, _ []string) error {
	const chunk = 2000
	if _, err := db.Exec(ctx, `set synchronous_commit = off`); err != nil {
		return fmt.Errorf("mark events: %w", err)
	}
	var last int64 // reading on from here passes by the dead index entries of what is marked
	for ctx.Err() == nil {
		n, err := markChunk(context.WithoutCancel(ctx), db, chunk, &last)
		if err != nil {
			return err
		}
		if n < chunk && !pause(ctx, pollHandwritten) {
			return nil
		}
	}
	return nil
}

func markChunk(ctx context.Context, db *pgx.Conn, chunk int, last *int64) (int, error) {
	rows, err := db.Query(ctx, `
		select id, event_id::text, aggregate_type, aggregate_id, event_type, topic, partition_key, payload::text,
			created_at
		from outbox_event
		where published_at is null and id > $1
		order by id
		limit $2`, *last, chunk)
	if err != nil {
		return 0, fmt.Errorf("read events: %w", err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		// The other columns have come over the wire, which is what counts.
		if err := rows.Scan(&id, nil, nil, nil, nil, nil, nil, nil, nil); err != nil {
			return 0, fmt.Errorf("read events: %w", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("read events: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	*last = ids[len(ids)-1]
	if _, err := db.Exec(ctx, `update outbox_event set published_at = now() where id = any($1)`, ids); err != nil {
		return 0, fmt.Errorf("mark events: %w", err)
	}
	return len(ids), nil
}
