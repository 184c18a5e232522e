package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumer reads the topic from now on and checks what arrives.
type consumer struct {
	client *kgo.Client
	seen   map[string]bool // event ids
	step   map[string]int  // the latest step of each order
}

func newConsumer(ctx context.Context, brokers []string, topic string) (*consumer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 6, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		client.Close()
		return nil, fmt.Errorf("create topic %s: %w", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("find the end of topic %s: %w", topic, err)
	}
	partitions := make(map[int32]kgo.Offset)
	ends.Each(func(o kadm.ListedOffset) { partitions[o.Partition] = kgo.NewOffset().At(o.Offset) })
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: partitions})
	return &consumer{client: client, seen: make(map[string]bool), step: make(map[string]int)}, nil
}

func (c *consumer) close() { c.client.Close() }

func (c *consumer) count() int { return len(c.seen) }

// await reads until so many events have arrived, each once and each order's in order.
func (c *consumer) await(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for len(c.seen) < want {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d events arrived: %w", len(c.seen), want, ctx.Err())
		}
		for _, r := range fetches.Records() {
			if err := c.take(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *consumer) take(r *kgo.Record) error {
	var event struct {
		EventID string `json:"event_id"`
		OrderConfirmed
	}
	if err := json.Unmarshal(r.Value, &event); err != nil {
		return fmt.Errorf("read event at offset %d: %w", r.Offset, err)
	}
	before, known := c.step[event.OrderID]
	switch {
	case c.seen[event.EventID]:
		return fmt.Errorf("event %s arrived twice", event.EventID)
	case known && event.Step <= before:
		return fmt.Errorf("step %d of %s arrived after step %d", event.Step, event.OrderID, before)
	}
	c.seen[event.EventID], c.step[event.OrderID] = true, event.Step
	return nil
}
