package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// lookTimeout bounds a look at the partitions. A cluster that takes longer does not count as answering.
const lookTimeout = time.Second

// othersAnswer tells, for a chunk of which nothing was acknowledged, whether that is its partitions' own fault: it asks
// the cluster whether a partition that is not open is well. A chunk may be one event.
//
// A partition that seems to be well and is not answered may have a broker that says nothing, so other partitions of its
// broker prove nothing. Where the cluster does not tell, or no partition is left, all of it is away, and an outage is
// ridden out in place.
func (p *Producer) othersAnswer(ctx context.Context, f *flight) bool {
	if time.Since(f.lookedAt) < lookTimeout {
		return false
	}
	defer func() { f.lookedAt = time.Now() }()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	p.mu.Lock()
	spare := p.spare
	p.mu.Unlock()
	if spare == nil {
		return false
	}
	found, err := kadm.NewClient(spare.Client).ListTopics(ctx, p.usable()...)
	if err != nil {
		return false
	}
	var silent []int32 // brokers
	var others []kadm.PartitionDetail
	for name, topic := range found {
		for _, d := range topic.Partitions {
			switch well := p.well(name, d); {
			case !well:
			case p.isSent(f, name, d.Partition):
				silent = append(silent, d.Leader)
			default:
				others = append(others, d)
			}
		}
	}
	return slices.ContainsFunc(others, func(d kadm.PartitionDetail) bool { return !slices.Contains(silent, d.Leader) })
}

// well tells whether the cluster knows nothing against a partition.
func (p *Producer) well(topic string, d kadm.PartitionDetail) bool {
	return d.Err == nil && d.Leader >= 0 && len(d.ISR) >= int(p.topics[topic].minISR)
}

// isSent tells whether events of the partition are in the flight or open in a retired client.
func (p *Producer) isSent(f *flight, topic string, partition int32) bool {
	for i, r := range f.records {
		if r != nil && r.Topic == topic && p.Partition(topic, f.events[i].Key) == partition {
			return true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[topic]
	return o != nil && o.groups[partition] != nil
}
