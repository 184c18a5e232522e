package relay

import (
	"math"
	"slices"
	"time"
)

// standing returns what the event waits behind, or nil.
func (f *flow) standing(e *Event) *hold {
	h, ok := f.failing.covering(e)
	if !ok {
		h, _ = f.paused.covering(e)
	}
	return h
}

// stopped tells whether operators have made everything wait.
func (f *flow) stopped() bool { return f.paused.kinds[ScopeAll] > 0 }

// holdBack makes a scope wait from now on: its events leave the queue.
func (f *flow) holdBack(in *holds, h *hold) {
	h.floor, h.kept = f.beneath(h.scope), math.MaxInt64
	in.add(h)
	f.catching.remove(h.scope)
}

// beneath is an id below every row of the scope that was not read yet, or waits already.
func (f *flow) beneath(scope Scope) int64 {
	set := f.classes.all()
	if scope.Topic != "" {
		set = 1 << f.classes.of(scope.Topic)
	}
	lowest := f.floor(set)
	if !f.catching.empty() {
		lowest = min(lowest, f.caught.floor)
	}
	f.overlapping(scope, func(h *hold) { lowest = min(lowest, h.floor) })
	return lowest
}

// overlapping calls do with every standing hold of events of the scope.
func (f *flow) overlapping(scope Scope, do func(*hold)) {
	for _, hs := range []*holds{&f.failing, &f.paused} {
		for other, h := range hs.all {
			if other.overlaps(scope) {
				do(h)
			}
		}
	}
}

// clearQueue takes out of the queue what waits behind a hold.
func (f *flow) clearQueue() {
	f.filterQueue(func(e *Event) bool { return f.standing(e) != nil }, func(e *Event) { f.standing(e).keep(e) })
}

// catchUp begins to read what waited behind a hold that stands no more. Some of it may wait behind another one, which
// then has to remember it.
func (f *flow) catchUp(h *hold) {
	f.overlapping(h.scope, func(other *hold) { other.floor = min(other.floor, h.floor) })
	if f.catching.empty() {
		f.caught = reach{h.floor, h.floor}
	}
	f.caught.floor = min(f.caught.floor, h.floor)
	f.catches++
	if h.scope.Kind != ScopeAll {
		f.catching.add(h)
		return
	}
	for i := range f.reach { // nothing else was read meanwhile
		f.reach[i].floor = min(f.reach[i].floor, h.floor)
	}
	f.epoch++
}

// lift ends the holds whose time has come, and tells whether there were any.
func (f *flow) lift(now time.Time) bool {
	due := f.failing.lift(now, &f.lifted)
	for _, h := range due {
		f.catchUp(h)
	}
	return len(due) > 0
}

// fail makes the topic of an event wait that can't be used.
func (f *flow) fail(e *Event, err error, now time.Time) *hold {
	h := &hold{scope: scopeOf(e, ScopeTopic, nil), err: err}
	h.begin(&f.lifted, now)
	f.holdBack(&f.failing, h)
	return h
}

// bar makes the partition of an event wait that has no answer yet. It returns nil where it waits already.
func (f *flow) bar(e *Event, err error, now time.Time) *hold {
	scope := scopeOf(e, ScopePartition, f.failing.partition)
	if _, stands := f.failing.all[scope]; stands {
		return nil
	}
	h := &hold{scope: scope, err: err, begun: now, since: e.CreatedAt}
	f.holdBack(&f.failing, h)
	return h
}

// unbar lets the partitions flow again whose events all have their answers. The whole topic is caught up with, since
// its keys may have other partitions by now.
func (f *flow) unbar() {
	for scope, h := range f.failing.all {
		waits := func(e *Event) bool { return scopeOf(e, ScopePartition, f.failing.partition) == scope }
		if scope.Kind == ScopePartition && !slices.ContainsFunc(f.open, waits) {
			f.failing.drop(h)
			h.scope = Scope{Kind: ScopeTopic, Topic: scope.Topic}
			f.catchUp(h)
		}
	}
}

// pause makes exactly the scopes wait that operators have named.
func (f *flow) pause(pauses []Pause, now time.Time) (begun, ended []*hold) {
	wanted := make(map[Scope]bool, len(pauses))
	for _, p := range pauses {
		wanted[p.Scope] = true
		if _, stands := f.paused.all[p.Scope]; !stands {
			h := &hold{scope: p.Scope, begun: now, pause: p.ID}
			f.holdBack(&f.paused, h)
			begun = append(begun, h)
		}
	}
	for scope, h := range f.paused.all {
		if !wanted[scope] {
			f.paused.drop(h)
			ended = append(ended, h)
		}
	}
	for _, h := range ended {
		f.catchUp(h)
	}
	if len(begun) > 0 {
		f.clearQueue()
	}
	return begun, ended
}

// release begins to read what waited with events that are parked no more.
func (f *flow) release(released []Released) {
	for _, r := range released {
		if r.Gone && r.Scope.Kind == ScopeEvent {
			continue // nothing waited
		}
		if !r.Gone {
			f.attempts[r.ID] = r.Attempts
		}
		f.catchUp(&hold{scope: r.Scope, floor: r.ID - 1})
	}
}

// waiting tells of the topics and partitions that wait for a reason of ours.
func (f *flow) waiting() (list []Waiting) {
	for scope, h := range f.failing.all {
		w := Waiting{Topic: scope.Topic, Reason: h.err.Error(), Tries: h.tries, Since: h.begun, NextTry: h.until}
		switch scope.Kind {
		case ScopeTopic:
			list = append(list, w)
		case ScopePartition:
			w.Partition = &scope.Partition
			list = append(list, w)
		}
	}
	return list
}
