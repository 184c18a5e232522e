package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verify compares the topic, read from the start, with its events in the table: every event once, unchanged, the events
// of a key in id order and on one partition.
func (p place) verify(ctx context.Context) error {
	v := verdict{open: map[string]event{}, lines: map[string]line{}}
	rows, err := p.db.Query(ctx, `select event_id::text, id, partition_key, payload::text from outbox_event
		where topic = $1`, p.topic)
	if err != nil {
		return fmt.Errorf("verify: read table: %w", err)
	}
	var id string
	var e event
	_, err = pgx.ForEachRow(rows, []any{&id, &e.id, &e.key, &e.value}, func() error {
		v.open[id] = e
		return nil
	})
	if err != nil {
		return fmt.Errorf("verify: read table: %w", err)
	}
	if err := p.eachRecord(ctx, v.take); err != nil {
		return fmt.Errorf("verify: read topic: %w", err)
	}
	return v.err()
}

// event is what the table says of an event.
type event struct {
	id         int64
	key, value string
}

// line is how far a key has come.
type line struct {
	id        int64
	partition int32
}

// verdict takes records, in order within each partition.
type verdict struct {
	open  map[string]event // by event id: not seen in the topic yet
	lines map[string]line  // by key

	strange, changed, reordered int
}

func (v *verdict) take(rec *kgo.Record) {
	id := eventID(rec)
	e, ok := v.open[id]
	if !ok {
		v.strange++
		return
	}
	delete(v.open, id)
	if string(rec.Key) != e.key || string(rec.Value) != e.value {
		v.changed++
	}
	if last, ok := v.lines[e.key]; ok && (last.id > e.id || last.partition != rec.Partition) {
		v.reordered++
		return
	}
	v.lines[e.key] = line{e.id, rec.Partition}
}

func (v *verdict) err() error {
	if len(v.open)+v.strange+v.changed+v.reordered == 0 {
		return nil
	}
	return fmt.Errorf("verify: %d events lost, %d repeated or unknown, %d changed, %d reordered",
		len(v.open), v.strange, v.changed, v.reordered)
}

func eventID(rec *kgo.Record) string {
	for _, h := range rec.Headers {
		if h.Key == "event_id" {
			return string(h.Value)
		}
	}
	return ""
}

// eachRecord reads all partitions of the topic to the high watermark they have now.
func (p place) eachRecord(ctx context.Context, do func(*kgo.Record)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, p.topic)
	if err != nil {
		return err
	}
	if err := ends.Error(); err != nil {
		return err
	}
	left := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
			from[o.Partition] = kgo.NewOffset().AtStart()
		}
	})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: from})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			end, ok := left[rec.Partition]
			if ok && rec.Offset < end {
				do(rec)
			}
			if rec.Offset >= end-1 {
				delete(left, rec.Partition)
			}
		})
	}
	return nil
}
