package faults_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/relay"
)

// atOnce checks all cases at the same time, since they wait for the client's pauses.
func atOnce[C interface{ check(context.Context) error }](t *testing.T, cases map[string]C) {
	t.Parallel()
	var group sync.WaitGroup
	for name, c := range cases {
		group.Go(func() {
			if err := c.check(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	group.Wait()
}

// cluster is a fake Kafka of two brokers.
type cluster struct {
	*kfake.Cluster
	cutter *cutter
	topics []string
}

const (
	// batchBytes is so small that the records of a chunk make several batches a partition.
	batchBytes = 900
	partitions = 2 // of each topic
)

func newCluster(topics ...string) (*cluster, error) {
	cutter := newCutter()
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.ListenFn(cutter.listen))
	if err != nil {
		return nil, fmt.Errorf("start fake Kafka: %w", err)
	}
	c := &cluster{Cluster: fake, cutter: cutter, topics: topics}
	for _, t := range topics {
		err = errors.Join(err, c.create(t))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) create(topic string) error {
	return c.CreateTopic(topic, partitions, map[string]string{"max.message.bytes": fmt.Sprint(batchBytes)})
}

// ends returns where the partitions end now.
func (c *cluster) ends() map[check.Partition]int64 {
	ends := map[check.Partition]int64{}
	for _, t := range c.topics {
		for _, p := range c.PartitionInfos(t) {
			ends[check.Partition{Topic: t, Num: p.Partition}] = p.HighWatermark
		}
	}
	return ends
}

func (c *cluster) records(ctx context.Context) ([]check.Record, error) {
	return check.ReadTopics(ctx, c.ListenAddrs(), c.topics...)
}

// newEvent makes an event whose id says everything about it.
func newEvent(id int64, topic, key string) *relay.Event {
	var eventID uuid.UUID
	binary.BigEndian.PutUint64(eventID[8:], uint64(id))
	return &relay.Event{
		ID: id, EventID: eventID, AggregateType: "Order", AggregateID: key, EventType: "order.confirmed.v1",
		Topic: topic, Key: key, Payload: fmt.Appendf(nil, `{"n": %d}`, id), CreatedAt: time.Unix(1e9, 0),
	}
}

// row is the event as it would stand in the outbox table.
func row(e *relay.Event, published bool) check.Event {
	return check.Event{
		ID: e.ID, EventID: e.EventID.String(), AggregateType: e.AggregateType, AggregateID: e.AggregateID,
		Type: e.EventType, Topic: e.Topic, Key: e.Key, Value: string(e.Payload), CreatedAt: e.CreatedAt,
		Published: published,
	}
}
