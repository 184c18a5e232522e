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
	acked  int
	outage error   // one of the failures that are nobody's fault
	held   []*hold // new or renewed
	mended []*hold // lifted ones whose events flow again
}

// published takes the outcomes of the chunk in flight in. Failed events go back to the head of the queue in their
// order, before rows that were read in the meantime; what a new hold covers leaves the queue with them.
func (f *flow) published(errs []error, now time.Time) outcome {
	var out outcome
	var failed []*Event
	for i, e := range f.sending {
		if errs[i] == nil {
			out.acked++
			f.acked = append(f.acked, e)
			if h := f.lifted.prove(e); h != nil {
				out.mended = append(out.mended, h)
			}
			continue
		}
		class := classOf(errs[i])
		failed = append(failed, e)
		switch {
		case class == Unsent:
		case class == Outage:
			out.outage = errs[i]
		case f.holds.covering(e) == nil:
			out.held = append(out.held, f.hold(e, class, errs[i], now))
		}
	}
	f.sending = nil
	f.queue = append(failed, f.queue...)
	if len(failed) > 0 {
		f.filterQueue(func(e *Event) bool { return !f.lanes.Has(e.Lane) }, nil)
	}
	if len(out.held) > 0 {
		f.filterQueue(func(e *Event) bool { return f.holds.covering(e) != nil },
			func(e *Event) { h := f.holds.covering(e); h.floor = min(h.floor, e.ID-1) })
	}
	return out
}

// hold makes the event's topic or key wait.
func (f *flow) hold(e *Event, class Class, err error, now time.Time) *hold {
	h := newHold(e, class, err)
	h.floor = f.reach[e.class].floor
	if !h.wholeTopic && len(f.holds.keys) >= maxKeyHolds {
		h.wholeTopic = true
	}
	h.begin(f.lifted, now)
	f.holds.add(h)
	return h
}

// lift ends the holds whose time has come, and tells whether there were any. Their rows are read again, from just below
// the first of them.
func (f *flow) lift(now time.Time) bool {
	due := f.holds.lift(now, f.lifted)
	for _, h := range due {
		reach := &f.reach[f.classes.of(h.topic)]
		reach.floor = min(reach.floor, h.floor)
		f.epoch++
	}
	return len(due) > 0
}
