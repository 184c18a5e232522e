package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste.dev/posthaste/relay"
)

// A produce request is answered when all of its partitions are, and a chunk when all of its requests are. So one
// partition that has no leader, or too few replicas, would stop everything. Instead, when a chunk has had no new answer
// for a while although the cluster answers otherwise, its client is retired: it gets no more records and goes on alone
// until it knows what has come of them, and the next chunk goes to a spare that stands ready.
//
// Order holds, since an event waits with its group, the keys of its partition: while one outcome of a group is open,
// nothing of the group is handed to any client, and when the last is known, all of them are told together. What failed
// among them is sent again before anything later of its key. A group is made of keys, by Partition, and Partition
// changes nothing about a topic while one of its groups is open. So it does not matter for order where the client has
// really put the records, nor whether the topic gets more partitions meanwhile: a key is always in one group.

// How many clients may be open behind the current one: each has connections and memory. When a chunk beyond is not
// answered it is waited for, whole; that much trouble is the cluster's. What the cluster itself says to be out of order
// may take a few more, since after that it is not even tried.
const (
	maxRetired     = 4
	maxRetiredSick = 8
)

// openTopic is a topic with groups whose outcomes are not all told.
type openTopic struct {
	count  int32 // of its partitions when the first of them was opened
	groups map[int32]*group
}

// group is the events of a partition in a flight whose client is retired.
type group struct {
	producer *Producer
	at       place
	flight   *flight
	events   []int          // in the flight, those that were not acknowledged by then
	left     int            // outcomes that are still to come, under the flight's lock
	closed   bool           // all are known, under the producer's lock
	untried  bool           // nothing was sent
	waits    *relay.Failure // what Publish says of them
}

var (
	errOpen = &relay.Failure{Class: relay.Outage,
		Err: errors.New("earlier events of its partition have no answer yet")}
	errShut = &relay.Failure{Class: relay.Unsent,
		Err: errors.New("its partition fell silent before it was sent again")}
	errRefusedTogether = &relay.Failure{Class: relay.Unsent,
		Err: errors.New("its batch was refused as a whole; it is tried again, alone if need be")}
	errUntried = &relay.Failure{Class: relay.Unsent,
		Err: errors.New("its partition was out of order and is well again")}
)

// retire gives the client of a chunk that has had no new answer for a while up to what is open in it, if others answer
// and there is a spare. It tells whether it has.
func (p *Producer) retire(ctx context.Context, f *flight, since time.Duration) bool {
	p.provideSpare() // where one could not be made before
	if !p.mayRetire(f) || !f.anyAcked() && !p.othersAnswer(ctx, f) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.closed || p.spare == nil || f.left == 0 {
		return false
	}
	old := p.current
	p.current, p.spare = p.spare, nil
	p.retired++
	p.openGroups(f, since)
	p.work.Go(func() { p.finish(old) })
	if !p.watching {
		p.watching = true
		p.work.Go(p.watch)
	}
	return true
}

// mayRetire tells whether a client could be.
func (p *Producer) mayRetire(f *flight) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.spare == nil {
		return false
	}
	if p.retired < maxRetired {
		return true
	}
	for at := range f.places(p) {
		if _, sick := p.sick[at]; !sick {
			return false
		}
	}
	return p.retired < maxRetiredSick
}

// finish goes on with a retired client until nothing is open in it.
func (p *Producer) finish(retired *client) {
	for done := false; !done && p.ctx.Err() == nil; {
		done, _ = flushOnce(p.ctx, retired.Client)
	}
	retired.Close()
	p.mu.Lock()
	p.retired--
	p.mu.Unlock()
}

// openGroups makes groups of the events that are not acknowledged in the partitions that have not answered; those that
// were not sent or have failed already wait with the others, or later events of their keys would be ahead of them.
func (p *Producer) openGroups(f *flight, since time.Duration) {
	text := "partition %d of topic %s has not answered for %v, others do"
	if p.retired >= maxRetired {
		text += "; so many wait that with another one everything may"
	}
	f.groups = make([]*group, len(f.events))
	for i, err := range f.outcomes {
		if err != errPending {
			continue
		}
		at := p.placeOf(f.events[i])
		g := p.groupAt(at)
		if g == nil || g.flight != f { // one before it has been told, and is about to go
			g = p.openGroup(f, at, fmt.Sprintf(text, at.partition, at.topic, since.Round(100*time.Millisecond)))
		}
		g.left++
	}
	for i, e := range f.events {
		if g := p.groupAt(p.placeOf(e)); g != nil && g.flight == f && f.outcomes[i] != nil {
			f.groups[i] = g
			g.events = append(g.events, i)
		}
	}
}

// openGroup opens a group.
func (p *Producer) openGroup(f *flight, at place, reason string) *group {
	o := p.open[at.topic]
	if o == nil {
		o = &openTopic{count: p.count(at.topic).Load(), groups: make(map[int32]*group)}
		p.open[at.topic] = o
	}
	g := &group{producer: p, at: at, flight: f,
		waits: &relay.Failure{Class: relay.Unanswered, Err: errors.New(reason)}}
	o.groups[at.partition] = g
	return g
}

// placeOf returns the partition that an event waits with.
func (p *Producer) placeOf(e *relay.Event) place { return place{e.Topic, p.partition(e.Topic, e.Key)} }

// groupAt returns the group that is open at a place, if there is one.
func (p *Producer) groupAt(at place) *group {
	o := p.open[at.topic]
	if o == nil {
		return nil
	}
	return o.groups[at.partition]
}

// openNow tells whether there are groups whose outcomes are not all told.
func (p *Producer) openNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) > 0
}

// isOpen tells whether outcomes of the event's group are still to come, so that nothing of it may be handed over.
func (p *Producer) isOpen(e *relay.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groupAt(p.placeOf(e))
	return g != nil && !g.closed
}

// close tells what has come of the group, which is known now, to whoever takes the answers.
func (g *group) close() {
	p := g.producer
	answers := g.answers()
	p.mu.Lock()
	g.closed = true
	if !g.untried && slices.ContainsFunc(answers, func(a relay.Answer) bool { return a.Err != nil }) {
		p.doubtful = append(p.doubtful, g.at.topic)
	}
	p.mu.Unlock()
	p.begin(func() {
		select {
		case p.answers <- answers:
		case <-p.ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.groupAt(g.at) != g {
			return // the partition has been opened again
		}
		o := p.open[g.at.topic]
		if delete(o.groups, g.at.partition); len(o.groups) == 0 {
			delete(p.open, g.at.topic)
		}
	})
}

// answers are the outcomes as Publish would have given them, but that nothing is tried alone: what was refused with its
// batch is sent again by the caller, and refused then.
func (g *group) answers() []relay.Answer {
	f := g.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := make([]relay.Answer, len(g.events))
	failed := make(map[string]bool)
	for n, i := range g.events {
		e, err := f.events[i], f.outcomes[i]
		_, classified := errors.AsType[*relay.Failure](err)
		switch {
		case err == nil:
		case failed[e.Key]:
			err = errBehind
		case classified:
		case suspicious(err):
			err = errRefusedTogether
		default:
			err = classify(err, e.Topic)
		}
		if err != nil {
			failed[e.Key] = true
		}
		answers[n] = relay.Answer{Event: e, Err: err}
	}
	return answers
}

// Answers brings the outcomes of what Publish has left unanswered, as relay.Publisher says.
func (p *Producer) Answers() <-chan []relay.Answer { return p.answers }
