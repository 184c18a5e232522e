package relay

import "math"

// request is a Read with what must still be true when its rows arrive.
type request struct {
	Read
	classes classSet
	final   int64 // H when the read began
	sweep   bool
	catchUp bool // it reads what was held
	epoch   int
	catches int
}

// nextRead returns the read of the classes to make now, or nil while there is no room. A sweep reads from the
// beginning.
func (f *flow) nextRead(limit int, due classSet, sweep bool) *request {
	r := f.newRead(limit)
	if r == nil {
		return nil
	}
	r.classes, r.sweep, r.Above = due, sweep, f.floor(due)
	if sweep {
		r.Above = math.MinInt64
	}
	if choice := f.classes.choice(r.classes); choice != nil {
		r.Wanted = append(r.Wanted, choice)
	}
	f.exclude(r, &f.failing, &f.paused, &f.catching)
	return r
}

// nextCatchUp returns the read of what was held to make now, or nil while there is no room, or nothing of the kind.
func (f *flow) nextCatchUp(limit int) *request {
	if f.catching.empty() {
		return nil
	}
	r := f.newRead(limit)
	if r == nil {
		return nil
	}
	r.catchUp, r.Above = true, f.caught.floor
	for scope := range f.catching.all {
		r.Only = append(r.Only, scope)
	}
	f.exclude(r, &f.failing, &f.paused)
	return r
}

func (f *flow) newRead(limit int) *request {
	room := f.limits.memory - f.bytes
	if len(f.queue) >= limit || room <= 0 || f.lanes.Len() == 0 || f.stopped() {
		return nil
	}
	if f.mean > 0 {
		limit = max(1, min(limit, room/f.mean)) // the server reads no more of large rows than there is room for
	}
	r := &request{
		Read:  Read{UpTo: math.MaxInt64, Lanes: f.lanes, Limit: limit, Bytes: room},
		final: f.final(), epoch: f.epoch, catches: f.catches,
	}
	if f.group != nil {
		r.Wanted = append(r.Wanted, f.group)
	}
	if f.strict {
		r.UpTo = r.final
	}
	return r
}

// exclude leaves out of a read what is in memory, parked, or held.
func (f *flow) exclude(r *request, held ...*holds) {
	for id := range f.known {
		if id > r.Above {
			r.Without = append(r.Without, id)
		}
	}
	for _, kind := range f.parked {
		if kind != ScopeEvent || f.parkedUpTo > r.Above {
			r.Parked = append(r.Parked, kind)
		}
	}
	r.ParkedUpTo = f.parkedUpTo
	for _, hs := range held {
		for scope := range hs.all {
			if scope.Kind != ScopePartition { // only the publisher knows its keys: its rows are dropped as they arrive
				r.Held = append(r.Held, scope)
			}
		}
	}
}

// floor is the lowest of the classes in the set.
func (f *flow) floor(set classSet) int64 {
	lowest := int64(math.MaxInt64)
	for i, r := range f.reach {
		if set.has(i) {
			lowest = min(lowest, r.floor)
		}
	}
	return lowest
}

// arrived takes the rows of a read in. It tells whether the read still counts.
func (f *flow) arrived(r *request, events []*Event, more bool) bool {
	if r.epoch != f.epoch || r.catchUp && r.catches != f.catches {
		return false
	}
	for _, e := range events {
		f.mean = max(1, (7*f.mean+e.Size())/8)
		e.class = f.classes.of(e.Topic)
		f.unlooked++
		if _, twice := f.known[e.ID]; !twice && f.wants(r, e) {
			f.take(e)
		}
	}
	upTo := min(r.final, r.UpTo)
	if n := len(events); more && n > 0 {
		upTo = min(upTo, events[n-1].ID)
	}
	if more && len(events) == 0 {
		return true
	}
	if r.catchUp {
		f.caught.floor = max(f.caught.floor, upTo)
		if !more {
			f.caughtUp(r)
		}
		return true
	}
	for i := range f.reach {
		if !r.classes.has(i) {
			continue
		}
		reach := &f.reach[i]
		if r.sweep && more {
			reach.floor = min(reach.floor, events[len(events)-1].ID) // what lies beyond was not looked at
		}
		reach.floor = max(reach.floor, upTo)
	}
	return true
}

// wants tells whether a row that has arrived is to be taken now, and sees to it that it is found again if not.
func (f *flow) wants(r *request, e *Event) bool {
	if h := f.standing(e); h != nil {
		h.keep(e)
		return false
	}
	if r.catchUp {
		f.caught.cursor = max(f.caught.cursor, e.ID)
		return f.catching.covers(e)
	}
	reach := &f.reach[e.class]
	reach.cursor = max(reach.cursor, e.ID)
	if f.catching.covers(e) {
		f.caught.floor = min(f.caught.floor, e.ID-1)
		return false
	}
	if r.sweep && e.ID <= reach.floor {
		f.sweepFound++
	}
	return true
}

func (f *flow) take(e *Event) {
	f.known[e.ID] = struct{}{}
	f.bytes += e.Size()
	f.queue = append(f.queue, e)
	if n, released := f.attempts[e.ID]; released {
		e.attempts = n
		delete(f.attempts, e.ID)
	}
}

// caughtUp ends the catching of the scopes that a read found nothing left of: all of their rows are in memory or
// settled, and what comes now is found by the other reads, which begin at a higher id.
func (f *flow) caughtUp(r *request) {
	for _, scope := range r.Only {
		f.catching.remove(scope)
	}
	if f.catching.empty() {
		clear(f.attempts)
	}
}
