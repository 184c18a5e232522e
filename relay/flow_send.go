package relay

import (
	"slices"
	"time"
)

// nextChunk moves the head of the queue to sending. The caller hands it over whole, and calls published before the
// next.
func (f *flow) nextChunk() []*Event {
	n := min(len(f.queue), f.limits.batchMax)
	f.sending = slices.Clone(f.queue[:n])
	clear(f.queue[:n]) // the array must not keep alive what is sent
	f.queue = f.queue[n:]
	return f.sending
}

// outcome sums up a chunk.
type outcome struct {
	acked   int
	outage  error    // one of the failures that are nobody's fault
	held    []*hold  // topics and partitions that wait from now on
	refused []*Event // to be parked
	mended  []*hold  // lifted ones whose events flow again
}

// published takes the outcomes of the chunk in flight in. Failed events go back to the head of the queue in their
// order, before rows that were read in the meantime; what a new hold covers leaves the queue with them.
func (f *flow) published(errs []error, now time.Time) outcome {
	events := f.sending
	f.sending = nil
	return f.outcomes(events, errs, now)
}

// answered takes the outcomes of events in that had none before.
func (f *flow) answered(answers []Answer, now time.Time) outcome {
	var events []*Event
	var errs []error
	for _, a := range answers {
		i := slices.Index(f.open, a.Event)
		if i < 0 {
			continue
		}
		f.open = slices.Delete(f.open, i, i+1)
		events, errs = append(events, a.Event), append(errs, a.Err)
	}
	f.unbar()
	return f.outcomes(events, errs, now)
}

func (f *flow) outcomes(events []*Event, errs []error, now time.Time) outcome {
	var out outcome
	var failed []*Event
	stray := false
	for i, e := range events {
		switch classOf(errs[i]) {
		case none:
			out.acked++
			f.acked = append(f.acked, e)
			if h := f.lifted.prove(e); h != nil {
				out.mended = append(out.mended, h)
			}
			continue
		case Unanswered:
			f.open = append(f.open, e)
			if h := f.bar(e, errs[i], now); h != nil {
				out.held = append(out.held, h)
			}
			continue
		case Refused:
			if f.hasLeft(e) {
				break
			}
			f.refuse(e, errs[i])
			out.refused = append(out.refused, e)
			f.lifted.prove(e) // its topic can be used
			continue
		case Outage:
			out.outage = errs[i]
		case TopicUnusable:
			if f.standing(e) == nil {
				out.held = append(out.held, f.fail(e, errs[i], now))
			}
		case Unsent:
		}
		if f.hasLeft(e) {
			stray = stray || f.lanes.Has(e.Lane)
			f.forget(e)
			continue
		}
		failed = append(failed, e)
	}
	f.queue = append(failed, f.queue...)
	if len(failed) > 0 {
		f.filterQueue(func(e *Event) bool { return !f.lanes.Has(e.Lane) }, nil)
	}
	if len(out.held)+len(out.refused)+len(failed) > 0 {
		f.clearQueue() // of what a new hold covers, and of what failed when operators have paused it meanwhile
	}
	if stray {
		f.dropQueue() // what came in behind it must not overtake it
	}
	return out
}

// hasLeft tells whether the lane of an event was lost while it was in flight. Even if it has come back: the owner
// between may have published, parked or discarded the event, so it is read again.
func (f *flow) hasLeft(e *Event) bool {
	_, left := f.left[e.ID]
	return left
}
