package check

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ReadTopics reads all partitions of the topics from the start to the high watermark they have when it begins.
func ReadTopics(ctx context.Context, brokers []string, topics ...string) ([]Record, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	defer client.Close()
	starts, err := listed(ctx, kadm.NewClient(client).ListStartOffsets, topics)
	if err != nil {
		return nil, fmt.Errorf("read topics: list start offsets: %w", err)
	}
	ends, err := ends(ctx, client, topics)
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}

	open := map[Partition]int64{}
	from := map[string]map[int32]kgo.Offset{}
	for p, end := range ends {
		begin, _ := starts.Lookup(p.Topic, p.Num)
		if begin.Offset >= end {
			continue
		}
		open[p] = end
		if from[p.Topic] == nil {
			from[p.Topic] = map[int32]kgo.Offset{}
		}
		from[p.Topic][p.Num] = kgo.NewOffset().At(begin.Offset)
	}
	client.AddConsumePartitions(from)
	var records []Record
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read topics: %w", err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			p := Partition{rec.Topic, rec.Partition}
			end, ok := open[p]
			if !ok {
				return
			}
			if rec.Offset < end {
				records = append(records, newRecord(rec))
			}
			if rec.Offset >= end-1 {
				delete(open, p)
			}
		})
	}
	return records, nil
}

// listed asks until every partition answers: a broker that was stopped for long is without its partitions for a moment
// when it is back.
func listed(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error),
	topics []string) (kadm.ListedOffsets, error) {
	for {
		all, err := list(ctx, topics...)
		if err == nil {
			err = all.Error()
		}
		if !kerr.IsRetriable(err) {
			return all, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// ends lists the high watermarks.
func ends(ctx context.Context, client *kgo.Client, topics []string) (map[Partition]int64, error) {
	all, err := listed(ctx, kadm.NewClient(client).ListEndOffsets, topics)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	ends := map[Partition]int64{}
	all.Each(func(o kadm.ListedOffset) { ends[Partition{o.Topic, o.Partition}] = o.Offset })
	return ends, nil
}

func newRecord(rec *kgo.Record) Record {
	r := Record{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Key: rec.Key, Value: rec.Value,
		Time: rec.Timestamp,
	}
	for _, h := range rec.Headers {
		r.Headers = append(r.Headers, Header{h.Key, string(h.Value)})
	}
	return r
}
