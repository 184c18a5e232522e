package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// runCeiling reads what a relay needs, chunk after chunk, and produces it without ever waiting for an answer or
// settling anything: no relay can read and produce more, nor at less processor time, by one session and one client.
func runCeiling(ctx context.Context, db *pgx.Conn, _ []string) error {
	const chunk = 2000
	failed := make(chan error, 1)
	producer, err := newProducer(brokersOf(), kgo.MaxBufferedRecords(10*chunk))
	if err != nil {
		return err
	}
	defer producer.Close()
	var last int64
	for ctx.Err() == nil {
		records, err := readChunk(context.WithoutCancel(ctx), db, chunk, &last)
		if err != nil {
			return err
		}
		for _, rec := range records {
			producer.Produce(context.WithoutCancel(ctx), rec, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
		select {
		case err := <-failed:
			return fmt.Errorf("produce events: %w", err)
		default:
		}
		if len(records) < chunk && !pause(ctx, pollHandwritten) {
			break
		}
	}
	return producer.Flush(context.WithoutCancel(ctx))
}

// readChunk reads on from an id, which passes by nothing.
func readChunk(ctx context.Context, db *pgx.Conn, chunk int, last *int64) ([]*kgo.Record, error) {
	rows, err := db.Query(ctx, `
		select id, event_id::text, aggregate_type, aggregate_id, event_type, topic, partition_key, payload::text,
			created_at
		from outbox_event
		where published_at is null and id > $1
		order by id
		limit $2`, *last, chunk)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	var records []*kgo.Record
	var aggregateType, aggregateID, eventType, topic string
	var eventID, key, payload []byte
	var createdAt time.Time
	_, err = pgx.ForEachRow(rows, []any{last, &eventID, &aggregateType, &aggregateID, &eventType, &topic, &key,
		&payload, &createdAt}, func() error {
		records = append(records, &kgo.Record{
			Topic: topic, Key: key, Value: payload,
			Headers: []kgo.RecordHeader{
				{Key: "event_id", Value: eventID}, {Key: "event_type", Value: []byte(eventType)},
				{Key: "aggregate_type", Value: []byte(aggregateType)},
				{Key: "aggregate_id", Value: []byte(aggregateID)},
				{Key: "created_at", Value: createdAt.UTC().AppendFormat(nil, time.RFC3339Nano)},
				{Key: "outbox_id", Value: fmt.Append(nil, *last)},
			},
		})
		eventID, key, payload = nil, nil, nil // the records have them
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return records, nil
}
