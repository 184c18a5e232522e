package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lookTimeout bounds a look at the partitions, and is the least time between two for a chunk. A cluster that takes
// longer does not count as answering.
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
	var (
		silent []int32 // brokers
		others []int32 // the leaders of partitions that are well
	)
	for _, t := range p.look(ctx, f) {
		for _, d := range t.Partitions {
			switch {
			case !p.well(*t.Topic, d):
			case p.isSent(f, *t.Topic, d.Partition):
				silent = append(silent, d.Leader)
			default:
				others = append(others, d.Leader)
			}
		}
	}
	return slices.ContainsFunc(others, func(leader int32) bool { return !slices.Contains(silent, leader) })
}

// look asks for the partitions of the topics that are known, by the spare's connections. Without an answer there are
// none.
func (p *Producer) look(ctx context.Context, f *flight) []kmsg.MetadataResponseTopic {
	names := p.usable()
	for i, r := range f.records {
		if r != nil && p.topics[f.events[i].Topic] == nil && !slices.Contains(names, r.Topic) {
			names = append(names, r.Topic) // forgotten, since a record was refused
		}
	}
	p.mu.Lock()
	spare := p.spare
	p.mu.Unlock()
	if spare == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, spare.Client)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(response.Topics, func(t kmsg.MetadataResponseTopic) bool {
		return t.Topic == nil || t.ErrorCode != 0
	})
}

// well tells whether the cluster knows nothing against a partition.
func (p *Producer) well(topic string, d kmsg.MetadataResponseTopicPartition) bool {
	t := p.topics[topic]
	return d.ErrorCode == 0 && d.Leader >= 0 && (t == nil || len(d.ISR) >= int(t.minISR))
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
