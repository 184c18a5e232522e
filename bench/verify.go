package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verify reads the topics from the start: every event of the ledger once, unchanged, in its topic, the events of a key
// in the order of their numbers and on one partition. Events that no relay was given are no loss.
func (p place) verify(ctx context.Context) (verdict, error) {
	v := newVerdict(p.ledger)
	if err := p.eachRecord(ctx, v.take); err != nil {
		return *v, fmt.Errorf("verify: read topics: %w", err)
	}
	return *v, v.err()
}

// line is how far a key has come.
type line struct {
	number    int
	partition int32
}

// verdict takes records, in order within each partition.
type verdict struct {
	ledger *ledger
	seen   []bool // by number
	lines  map[string]line

	arrived, strange, repeated, changed, reordered int
}

func newVerdict(l *ledger) *verdict {
	return &verdict{ledger: l, seen: make([]bool, l.next), lines: map[string]line{}}
}

func (v *verdict) take(rec *kgo.Record) {
	n := numberOf(rec.Value)
	switch {
	case n < 1 || n >= len(v.seen):
		v.strange++
		return
	case v.seen[n]:
		v.repeated++
		return
	}
	v.seen[n] = true
	v.arrived++
	key := v.ledger.key(n)
	if string(rec.Key) != key || string(rec.Value) != v.ledger.value(n) || rec.Topic != v.ledger.topic(n) ||
		header(rec, "event_id") != v.ledger.eventID(n) {
		v.changed++
	}
	if last, ok := v.lines[key]; ok && (last.number > n || last.partition != rec.Partition) {
		v.reordered++
		return
	}
	v.lines[key] = line{n, rec.Partition}
}

func (v *verdict) err() error {
	lost := len(v.seen) - 1 - v.arrived
	if lost+v.strange+v.repeated+v.changed+v.reordered == 0 {
		return nil
	}
	return fmt.Errorf("verify: %d events lost, %d repeated, %d unknown, %d changed, %d reordered",
		lost, v.repeated, v.strange, v.changed, v.reordered)
}

// forgiving is err for a subject that does not promise order among several of its kind.
func (v *verdict) forgiving() error {
	other := *v
	other.reordered = 0
	return other.err()
}

func header(rec *kgo.Record, name string) string {
	for _, h := range rec.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// eachRecord reads all partitions of the topics to the high watermarks that they have now.
func (p place) eachRecord(ctx context.Context, do func(*kgo.Record)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, p.topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	type partition struct {
		topic string
		n     int32
	}
	left := map[partition]int64{}
	from := map[string]map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset == 0 {
			return
		}
		left[partition{o.Topic, o.Partition}] = o.Offset
		if from[o.Topic] == nil {
			from[o.Topic] = map[int32]kgo.Offset{}
		}
		from[o.Topic][o.Partition] = kgo.NewOffset().AtStart()
	})
	client.AddConsumePartitions(from)
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			at := partition{rec.Topic, rec.Partition}
			end, ok := left[at]
			if ok && rec.Offset < end {
				do(rec)
			}
			if rec.Offset >= end-1 {
				delete(left, at)
			}
		})
	}
	return nil
}
