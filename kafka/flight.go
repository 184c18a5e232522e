package kafka

import (
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// flight is a chunk that was handed to a client, and what has come of it.
type flight struct {
	events  []*relay.Event
	records []*kgo.Record // nil where nothing is sent
	failed  chan struct{} // closed when a record has

	lookedAt time.Time // whether the cluster answers, by who waits for the flight

	mu       sync.Mutex
	outcomes []error  // errPending until it is known
	left     int      // records whose outcome is still to come
	acked    int      // records
	groups   []*group // what each event waits with; nil before the client is retired
}

func newFlight(events []*relay.Event, records []*kgo.Record, errs []error) *flight {
	f := &flight{events: events, records: records, failed: make(chan struct{}), outcomes: make([]error, len(records))}
	for i, r := range records {
		f.outcomes[i] = errs[i]
		if r != nil {
			f.outcomes[i] = errPending
			f.left++
		}
	}
	return f
}

// answer takes the outcome of a record in.
func (f *flight) answer(i int, err error) {
	var done *group
	f.mu.Lock()
	f.outcomes[i] = err
	f.left--
	if err == nil {
		f.acked++
	} else if !isClosed(f.failed) {
		close(f.failed)
	}
	if f.groups != nil {
		if g := f.groups[i]; g != nil {
			if g.left--; g.left == 0 {
				done = g
			}
		}
	}
	f.mu.Unlock()
	if done != nil {
		done.close()
	}
}

// known tells how many outcomes are.
func (f *flight) known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.records) - f.left
}

// topics are those of the records.
func (f *flight) topics() []string {
	var names []string
	for _, r := range f.records {
		if r != nil && (len(names) == 0 || names[len(names)-1] != r.Topic) {
			names = append(names, r.Topic)
		}
	}
	return names
}

// places are the partitions of the records that have no outcome.
func (f *flight) places(p *Producer) map[place]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[place]bool)
	for i, err := range f.outcomes {
		if err == errPending {
			all[p.placeOf(f.events[i])] = true
		}
	}
	return all
}

// anyAcked tells whether a record of the chunk was acknowledged.
func (f *flight) anyAcked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked > 0
}

// tell gives each event's outcome, as far as it is known. Early is a chunk that was taken back before it was sent.
func (f *flight) tell(errs []error, early bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.records {
		switch {
		case f.groups != nil && f.groups[i] != nil:
			errs[i] = f.groups[i].waits
		case r == nil:
		case early && f.outcomes[i] == errPending:
			errs[i] = errEarly
		default:
			errs[i] = f.outcomes[i]
		}
	}
}

// quiet measures how long nothing new is heard of a chunk. While a broker has told the client to wait, its silence is
// not held against it.
type quiet struct {
	gate  *gate
	known int
	heard time.Time
}

func newQuiet(g *gate) *quiet { return &quiet{gate: g, heard: time.Now()} }

func (q *quiet) since(known int) time.Duration {
	if known != q.known {
		q.known, q.heard = known, time.Now()
	}
	if until := q.gate.throttledUntil(); until.After(q.heard) {
		q.heard = until
	}
	return time.Since(q.heard)
}

func unanswered(err error) bool {
	f, ok := errors.AsType[*relay.Failure](err)
	return ok && f.Class == relay.Unanswered
}
