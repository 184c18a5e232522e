package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pollHandwritten is how often the hand-written relay looks when it keeps up: often, so that its latency is fair.
const pollHandwritten = 10 * time.Millisecond

// runHandwritten is the relay that a careful team writes in an afternoon: one transaction a batch takes rows with SKIP
// LOCKED, produces the batch at once and waits for all answers, marks it with one update, and goes on at once while
// batches are full. Its statements are prepared, which pgx does by itself.
func runHandwritten(ctx context.Context, db *pgx.Conn, args []string) error {
	batch, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("read batch size: %w", err)
	}
	producer, err := newProducer(brokersOf())
	if err != nil {
		return err
	}
	defer producer.Close()
	for ctx.Err() == nil {
		// A batch that was begun is finished, whatever the signal says.
		n, err := shipBatch(context.WithoutCancel(ctx), db, producer, batch)
		if err != nil {
			return err
		}
		if n < batch && !pause(ctx, pollHandwritten) {
			return nil
		}
	}
	return nil
}

func shipBatch(ctx context.Context, db *pgx.Conn, producer *kgo.Client, batch int) (int, error) {
	var ids []int64
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			select id, event_id::text, event_type, topic, partition_key, payload::text
			from outbox_event
			where published_at is null
			order by id
			limit $1
			for update skip locked`, batch)
		if err != nil {
			return err
		}
		var records []*kgo.Record
		var id int64
		var eventID, eventType, topic, key, payload string
		_, err = pgx.ForEachRow(rows, []any{&id, &eventID, &eventType, &topic, &key, &payload}, func() error {
			ids = append(ids, id)
			records = append(records, &kgo.Record{
				Topic: topic, Key: []byte(key), Value: []byte(payload),
				Headers: []kgo.RecordHeader{
					{Key: "event_id", Value: []byte(eventID)}, {Key: "event_type", Value: []byte(eventType)},
				},
			})
			return nil
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `update outbox_event set published_at = now() where id = any($1)`, ids)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ship batch: %w", err)
	}
	return len(ids), nil
}
