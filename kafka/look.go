package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"posthaste.dev/posthaste/relay"
)

// lookEvery is the pause between two looks at the partitions, and the time that one may take. A cluster that takes
// longer does not count as answering.
const lookEvery = time.Second

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// othersAnswer tells, for a chunk of which nothing was acknowledged, whether that is its partitions' own fault: it asks
// the cluster whether a partition that is not open is well. A chunk may be one event.
//
// A partition that seems to be well and is not answered may have a broker that says nothing, so other partitions of its
// broker prove nothing. Where the cluster does not tell, or no partition is left, all of it is away, and an outage is
// ridden out in place.
func (p *Producer) othersAnswer(ctx context.Context, f *flight) bool {
	if time.Since(f.lookedAt) < lookEvery {
		return false
	}
	defer func() { f.lookedAt = time.Now() }()
	found := p.look(ctx, f.topics())
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := f.places(p)
	var (
		silent []int32 // brokers
		others []int32 // the leaders of partitions that are well
	)
	for at, d := range found {
		switch {
		case d.complaint != "":
		case sent[at] || p.groupAt(at) != nil:
			silent = append(silent, d.leader)
		default:
			others = append(others, d.leader)
		}
	}
	return slices.ContainsFunc(others, func(leader int32) bool { return !slices.Contains(silent, leader) })
}

// seen is what the cluster says of a partition.
type seen struct {
	leader    int32
	complaint string // why it can't be written; empty where the cluster knows nothing against it
}

// look asks for the partitions of the topics that are known, and of more. Without an answer there are none.
func (p *Producer) look(ctx context.Context, more []string) map[place]seen {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	p.mu.Lock()
	client := p.current
	if p.spare != nil {
		client = p.spare // it has nothing to do
	}
	names := p.usable()
	least := make(map[string]int, len(names))
	for _, name := range names {
		least[name] = int(p.topics[name].minISR)
	}
	p.mu.Unlock()
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(names, more...)))) {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client.Client)
	if err != nil {
		return nil
	}
	p.leastNow(ctx, client, response, least)
	found := make(map[place]seen)
	for _, t := range response.Topics {
		for _, d := range t.Partitions {
			s := seen{leader: d.Leader}
			switch n := least[*t.Topic]; {
			case d.Leader < 0:
				s.complaint = "has no leader"
			case len(d.ISR) < n:
				s.complaint = fmt.Sprintf("has %d in-sync replicas and wants %d", len(d.ISR), n)
			}
			found[place{*t.Topic, d.Partition}] = s
		}
	}
	return found
}

// leastNow asks anew for the least number of in-sync replicas of topics that have too few by what is known: it may have
// been lowered, to let them go on.
func (p *Producer) leastNow(ctx context.Context, client *client, found *kmsg.MetadataResponse, least map[string]int) {
	short := make(map[string]bool)
	for _, t := range found.Topics {
		for _, d := range t.Partitions {
			if len(d.ISR) < least[*t.Topic] {
				short[*t.Topic] = true
			}
		}
	}
	if len(short) == 0 {
		return
	}
	names := slices.Collect(maps.Keys(short))
	for name, c := range settings(ctx, kadm.NewClient(client.Client), names) {
		if n, err := strconv.Atoi(c["min.insync.replicas"]); err == nil {
			least[name] = n
		}
	}
}

// watch looks at the partitions while some are open. What can't be written by what the cluster says is not even tried
// (see holdSick): each partition that is found out by trying takes a moment of silence, and a client.
func (p *Producer) watch() {
	for first := true; ; first = false {
		if !first {
			select {
			case <-time.After(lookEvery):
			case <-p.ctx.Done():
				return
			}
		}
		found := p.look(p.ctx, nil)
		if !p.observe(found) {
			return
		}
	}
}

// observe takes a look in, and lets go of what was not tried and is well. It tells whether anything is open.
func (p *Producer) observe(found map[place]seen) bool {
	var well []*group
	p.mu.Lock()
	if found != nil {
		maps.DeleteFunc(found, func(_ place, s seen) bool { return s.complaint == "" })
		p.sick = found
		for name, o := range p.open {
			for n, g := range o.groups {
				if _, sick := found[place{name, n}]; g.untried && !g.closed && !sick {
					well = append(well, g)
				}
			}
		}
	}
	p.watching = len(p.open) > 0 && !p.closed
	if !p.watching {
		p.sick = nil
	}
	on := p.watching
	p.mu.Unlock()
	for _, g := range well {
		g.close()
	}
	return on
}

// holdSick leaves the events of partitions that are known to be sick unanswered without a try. They come back unsent,
// to be sent, when the partition is seen to be well.
func (p *Producer) holdSick(events []*relay.Event, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sick) == 0 {
		return
	}
	f := &flight{events: events, outcomes: make([]error, len(events)), groups: make([]*group, len(events))}
	for i, e := range events {
		at := p.placeOf(e)
		s, sick := p.sick[at]
		g := p.groupAt(at)
		if !sick || g != nil && g.flight != f && !g.closed {
			continue
		}
		if g == nil || g.flight != f {
			g = p.openGroup(f, at, fmt.Sprintf("partition %d of topic %s %s", at.partition, at.topic, s.complaint))
			g.untried = true
		}
		f.outcomes[i], f.groups[i] = errUntried, g
		g.events = append(g.events, i)
		errs[i] = g.waits
	}
}
