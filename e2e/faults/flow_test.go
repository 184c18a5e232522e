package faults_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/relay"
)

// publisher is what is under test.
type publisher interface {
	Publish(ctx context.Context, events []*relay.Event) []error
}

// answerer is a publisher that may leave events unanswered.
type answerer interface {
	Answers() <-chan []relay.Answer
	Partition(topic, key string) int32
}

// flow calls a publisher as a relay does: a chunk at a time, failed events at the head of the next one, and the events
// of a topic or key that was refused set aside for a while. It keeps the books for the verdict.
type flow struct {
	publisher publisher
	cluster   *cluster
	storm     *storm
	rng       *rand.Rand
	mistake   mistake

	all     []*relay.Event // in order of id
	queue   []*relay.Event
	waiting []*relay.Event // behind a hold
	holds   map[scope]int  // the chunk before which it ends
	open    map[partition][]*relay.Event

	chunks   int
	retired  int // groups of events that were left unanswered
	acked    map[int64]bool
	audits   []check.Audit
	problems []string // promises of Publish that were broken
}

// scope is a topic, or a key of it.
type scope struct {
	topic, key string
	whole      bool
}

// partition of a topic. Nothing of it is handed over while there are events in it that have no answer.
type partition struct {
	topic string
	num   int32
}

func (f *flow) partitionOf(e *relay.Event) partition {
	return partition{e.Topic, f.publisher.(answerer).Partition(e.Topic, e.Key)}
}

func scopeOf(e *relay.Event, class relay.Class) scope {
	if class == relay.TopicUnusable {
		return scope{topic: e.Topic, whole: true}
	}
	return scope{topic: e.Topic, key: e.Key}
}

const (
	chunkMax = 40
	keys     = 7 // of each topic
)

// write adds up to n events.
func (f *flow) write(n int) {
	for range f.rng.IntN(n + 1) {
		topic := f.cluster.topics[f.rng.IntN(len(f.cluster.topics))]
		e := newEvent(int64(len(f.all)+1), topic, fmt.Sprint("k", f.rng.IntN(keys)))
		e.Payload = fmt.Appendf(nil, `{"n": %d, "pad": %q}`, e.ID, strings.Repeat("x", f.rng.IntN(200)))
		f.all = append(f.all, e)
		if f.held(e) {
			f.waiting = append(f.waiting, e)
		} else {
			f.queue = append(f.queue, e)
		}
	}
}

func (f *flow) held(e *relay.Event) bool {
	_, topic := f.holds[scopeOf(e, relay.TopicUnusable)]
	_, key := f.holds[scopeOf(e, relay.Refused)]
	return topic || key || len(f.open) > 0 && f.open[f.partitionOf(e)] != nil
}

// lift ends the holds that are due. What waited behind them comes back in order of id, behind the queue, in which there
// is nothing of its keys.
func (f *flow) lift() {
	for s, until := range f.holds {
		if f.chunks >= until {
			delete(f.holds, s)
		}
	}
	slices.SortFunc(f.waiting, func(a, b *relay.Event) int { return cmp.Compare(a.ID, b.ID) })
	still := f.waiting[:0]
	for _, e := range f.waiting {
		if f.held(e) {
			still = append(still, e)
		} else {
			f.queue = append(f.queue, e)
		}
	}
	f.waiting = still
}

// send hands a chunk over and takes its outcomes in.
func (f *flow) send(ctx context.Context) {
	f.takeAnswers(ctx)
	f.lift()
	f.chunks++
	n := min(len(f.queue), 1+f.rng.IntN(chunkMax))
	chunk, rest := slices.Clone(f.queue[:n]), slices.Clone(f.queue[n:])
	f.storm.since()
	errs := f.publisher.Publish(ctx, slices.Clone(chunk))
	f.judge(chunk, errs, f.storm.since())

	opened := map[partition][]*relay.Event{}
	var failed []*relay.Event
	for i, e := range chunk {
		if errs[i] != nil && classOf(errs[i]) == relay.Unanswered {
			opened[f.partitionOf(e)] = append(opened[f.partitionOf(e)], e)
			continue
		}
		if f.takeIn(e, errs[i]) {
			failed = append(failed, e)
		}
	}
	for of, events := range opened {
		f.open[of] = events
		f.retired++
	}
	f.putBack(failed, rest)
}

// takeIn takes an outcome in, and tells whether it is a failure.
func (f *flow) takeIn(e *relay.Event, err error) bool {
	if err == nil {
		f.acked[e.ID] = true
		return false
	}
	if class := classOf(err); (class == relay.TopicUnusable || class == relay.Refused) && !f.held(e) {
		f.holds[scopeOf(e, class)] = f.chunks + 1 + f.rng.IntN(3)
	}
	return true
}

// putBack makes the queue anew; what is held leaves it.
func (f *flow) putBack(failed, rest []*relay.Event) {
	f.queue = append(failed, rest...)
	if f.mistake == failedToTheTail {
		f.queue = append(rest, failed...)
	}
	f.queue = slices.DeleteFunc(f.queue, func(e *relay.Event) bool {
		if f.held(e) {
			f.waiting = append(f.waiting, e)
			return true
		}
		return false
	})
}

// takeAnswers takes in what has come, and waits a moment for it where there is nothing else to do.
func (f *flow) takeAnswers(ctx context.Context) {
	p, ok := f.publisher.(answerer)
	if !ok {
		return
	}
	for {
		select {
		case answers := <-p.Answers():
			f.answered(answers)
			continue
		default:
		}
		if len(f.queue) > 0 || len(f.open) == 0 || !pause(ctx) {
			return
		}
		select {
		case answers := <-p.Answers():
			f.answered(answers)
		default:
			return
		}
	}
}

// answered takes the answers of a partition in: the events that were left open in it, all and in their order. What has
// failed goes to the head of the queue.
func (f *flow) answered(answers []relay.Answer) {
	of := f.partitionOf(answers[0].Event)
	open := f.open[of]
	var events, failed []*relay.Event
	var errs []error
	for _, a := range answers {
		events, errs = append(events, a.Event), append(errs, a.Err)
	}
	if !slices.Equal(events, open) {
		f.problem("answers for partition %v are not for what is open in it: %d and %d events", of, len(events),
			len(open))
	}
	delete(f.open, of)
	f.judgeOrder(events, errs)
	for i, e := range events {
		if classOf(errs[i]) == relay.Refused {
			f.problem("event %d is refused in an answer, it was not tried alone: %v", e.ID, errs[i])
		}
		if f.takeIn(e, errs[i]) {
			failed = append(failed, e)
		}
	}
	f.putBack(failed, f.queue)
}

func classOf(err error) relay.Class {
	if f, ok := errors.AsType[*relay.Failure](err); ok {
		return f.Class
	}
	return relay.Outage
}

// judge holds the outcomes of a call against what relay.Publisher promises, and against the faults that struck
// meanwhile.
func (f *flow) judge(chunk []*relay.Event, errs []error, struck map[string][]*fault) {
	for _, i := range f.judgeOrder(chunk, errs) {
		if classOf(errs[i]) != relay.Unanswered {
			f.judgeClass(chunk[i], errs[i], struck)
		}
	}
}

// judgeOrder looks for events that were acknowledged behind a failed one of their key. It returns which events were the
// first of their keys to fail.
func (f *flow) judgeOrder(events []*relay.Event, errs []error) (firsts []int) {
	failed := map[scope]int{} // which event was the first
	audit := check.Audit{Ends: f.cluster.ends()}
	for i, e := range events {
		k := scopeOf(e, relay.Refused)
		first, behind := failed[k]
		switch {
		case errs[i] == nil && behind:
			f.problem("event %d was acknowledged after event %d of its key had failed in the same call: %v", e.ID,
				events[first].ID, errs[first])
		case errs[i] == nil:
			audit.Marked = append(audit.Marked, e.EventID.String())
		case !behind:
			failed[k] = i
			firsts = append(firsts, i)
		}
	}
	f.audits = append(f.audits, audit)
	return firsts
}

// judgeClass holds the failure of a key's first event against the faults that its topic met. One that was not sent, or
// an outage, may be another topic's: when a hand-over to the client is torn, all of it is sent again.
func (f *flow) judgeClass(e *relay.Event, err error, struck map[string][]*fault) {
	failure, ok := errors.AsType[*relay.Failure](err)
	if !ok {
		f.problem("event %d failed without a class: %v", e.ID, err)
		return
	}
	if failure.Class == relay.Unsent {
		return
	}
	for topic, faults := range struck {
		for _, s := range faults {
			if s.class == failure.Class && (topic == e.Topic || topic == "") || failure.Class == relay.Outage {
				return
			}
		}
	}
	f.problem("event %d failed as %s: %v; no fault of its topic means that", e.ID, failure.Class, err)
}

func (f *flow) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf("chunk %d: ", f.chunks)+fmt.Sprintf(format, args...))
}

func (f *flow) done() bool { return len(f.queue)+len(f.waiting)+len(f.open) == 0 }

// table is the outbox as it would stand now.
func (f *flow) table() []check.Event {
	var events []check.Event
	for _, e := range f.all {
		events = append(events, row(e, f.acked[e.ID]))
	}
	return events
}
