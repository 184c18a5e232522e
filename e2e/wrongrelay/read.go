package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

type row struct {
	id     int64
	record *kgo.Record
}

func (r *relay) read(ctx context.Context, tx pgx.Tx) ([]row, error) {
	var floor int64
	if r.mistake == "last-id" {
		floor = r.last
	}
	lock := ""
	if r.mistake == "skip-locked" {
		lock = " for update skip locked"
	}
	rows, err := tx.Query(ctx, `
		select id, event_id::text, aggregate_type, aggregate_id, event_type, topic, partition_key, payload::text,
			created_at, coalesce(to_jsonb(o) -> 'headers', 'null')::text
		from outbox_event o
		where published_at is null and id > $1
		order by id limit $2`+lock, floor, r.limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	read, err := pgx.CollectRows(rows, r.row)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return read, nil
}

func (r *relay) row(pgRow pgx.CollectableRow) (row, error) {
	var id int64
	var eventID, aggregateType, aggregateID, eventType, topic, key, payload, extra string
	var createdAt time.Time
	err := pgRow.Scan(&id, &eventID, &aggregateType, &aggregateID, &eventType, &topic, &key, &payload, &createdAt,
		&extra)
	if err != nil {
		return row{}, err
	}
	if r.mistake == "reprint" {
		var v any
		if err := json.Unmarshal([]byte(payload), &v); err != nil {
			return row{}, err
		}
		printed, err := json.Marshal(v)
		if err != nil {
			return row{}, err
		}
		payload = string(printed)
	}
	rec := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(payload)}
	header := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	header("event_id", eventID)
	header("event_type", eventType)
	header("aggregate_type", aggregateType)
	header("aggregate_id", aggregateID)
	header("created_at", createdAt.UTC().Format(time.RFC3339Nano))
	header("outbox_id", strconv.FormatInt(id, 10))
	var headers map[string]string
	if err := json.Unmarshal([]byte(extra), &headers); err != nil {
		return row{}, err
	}
	for name, value := range headers {
		header(name, value)
	}
	return row{id, rec}, nil
}
