package relay

import (
	"math"
	"slices"
	"time"
)

// flow is what a relay holds in memory of the outbox: the events on their way and how far it has looked. It decides
// what to read, send and settle next; it knows no clock, no server and no goroutine, so its decisions can be tested one
// by one. An event moves
//
//	read -> queue -> sending -> acked -> settling -> forgotten
//
// and goes back to the head of the queue when sending failed, back to acked when settling did.
//
// Where reads begin. floor is an id up to which every row of our lanes is settled, in memory, or behind a hold: a read
// that began when those ids were final (see horizon) has seen to that. Rows in memory are left out of a read by id,
// held ones by their hold, which puts the floor below the first of them when it is lifted. Whatever could bring an
// unseen row below the floor sets it back to the beginning: a lane gained, a new database connection, a sequence that
// went backwards. So the floor only saves work, and a row is lost to it only by a fault in this file; the sweep looks
// for such.
//
// Each class of topics has a floor of its own, since a read may leave classes out whose time has not come.
type flow struct {
	lanes    LaneSet // owned and being read
	group    Choice  // the topics that this relay's group has
	strict   bool    // read only what is final
	limits   limits
	classes  classes
	reach    []reach // of each class
	unlooked int     // rows read since the latest look at the horizon
	horizon  horizon
	unstable bool // no horizon can be had: the floor never moves

	queue    []*Event
	sending  []*Event
	acked    []*Event
	settling []*Event
	known    map[int64]struct{} // ids of all four
	bytes    int                // memory of all four
	mean     int                // size of recent events

	holds  holds
	lifted holds // lifted to look again, not yet proven

	// epoch goes up whenever rows that a read on its way has left out, as held or in memory, may have to be read after
	// all, or its lanes are others: it is thrown away whole, since a later row of a key must not come in before an
	// earlier one.
	epoch      int
	sweepFound int
}

// limits bound what the flow takes in.
type limits struct {
	batch    int // rows of a read while keeping up
	batchMax int // rows of a read and of a chunk under backlog
	memory   int // bytes of all events in memory
}

// reach is how far a class was read.
type reach struct {
	floor  int64
	cursor int64 // the highest id read
}

func newFlow(l limits, strict bool, classes classes) *flow {
	f := &flow{limits: l, strict: strict, horizon: newHorizon(), classes: classes,
		reach: make([]reach, classes.count()),
		known: make(map[int64]struct{}), holds: newHolds(), lifted: newHolds()}
	f.reset()
	return f
}

// request is a Read with what must still be true when its rows arrive.
type request struct {
	Read
	classes classSet
	final   int64 // H when the read began
	sweep   bool
	epoch   int
}

// nextRead returns the read of the classes to make now, or nil while there is no room. A sweep reads all classes, from
// the beginning.
func (f *flow) nextRead(limit int, due classSet, sweep bool) *request {
	room := f.limits.memory - f.bytes
	if len(f.queue) >= limit || room <= 0 || f.lanes.Len() == 0 {
		return nil
	}
	if f.mean > 0 {
		limit = max(1, min(limit, room/f.mean)) // the server reads no more of large rows than there is room for
	}
	r := &request{
		Read:    Read{Above: f.floor(due), UpTo: math.MaxInt64, Lanes: f.lanes, Limit: limit, Bytes: room},
		classes: due, final: f.final(), sweep: sweep, epoch: f.epoch,
	}
	if sweep {
		r.Above, r.classes = math.MinInt64, f.classes.all()
	}
	for _, c := range []Choice{f.group, f.classes.choice(r.classes)} {
		if c != nil {
			r.Wanted = append(r.Wanted, c)
		}
	}
	if f.strict {
		r.UpTo = r.final
	}
	for id := range f.known {
		if id > r.Above {
			r.Without = append(r.Without, id)
		}
	}
	f.holds.exclude(&r.Read)
	return r
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

// final is H, or an id below all others where there is none.
func (f *flow) final() int64 {
	if f.unstable {
		return noHorizon
	}
	return f.horizon.final
}

// arrived takes the rows of a read in. It tells whether the read still counts.
func (f *flow) arrived(r *request, events []*Event, more bool) bool {
	if r.epoch != f.epoch {
		return false
	}
	seen := int64(math.MaxInt64)
	if n := len(events); more && n > 0 {
		seen = events[n-1].ID
	}
	for _, e := range events {
		f.mean = max(1, (7*f.mean+e.Size())/8)
		e.class = f.classes.of(e.Topic)
		reach := &f.reach[e.class]
		if r.sweep && e.ID <= reach.floor {
			f.sweepFound++
		}
		if _, twice := f.known[e.ID]; twice {
			continue
		}
		reach.cursor = max(reach.cursor, e.ID)
		f.unlooked++
		if h := f.holds.covering(e); h != nil {
			h.floor = min(h.floor, e.ID-1)
			continue
		}
		f.known[e.ID] = struct{}{}
		f.bytes += e.Size()
		f.queue = append(f.queue, e)
	}
	for i := range f.reach {
		reach := &f.reach[i]
		if r.sweep && more {
			reach.floor = min(reach.floor, seen) // what lies beyond was not looked at
		}
		if r.classes.has(i) && (!more || len(events) > 0) {
			reach.floor = max(reach.floor, min(r.final, seen))
		}
	}
	return true
}

// behind tells whether a look at the horizon could move the floor.
func (f *flow) behind() bool {
	return !f.unstable && (!f.horizon.looked || f.horizon.waiting != nil ||
		slices.ContainsFunc(f.reach, func(r reach) bool { return r.cursor > r.floor }))
}

// expecting tells whether strict order waits for writers to end: their rows can be read the moment they have.
func (f *flow) expecting() bool { return f.strict && f.horizon.final < f.horizon.last }

// observe takes a look at the horizon in. It tells whether the sequence was found to have gone backwards.
func (f *flow) observe(look Horizon) bool {
	f.unlooked = 0
	if !f.horizon.observe(look) {
		return false
	}
	f.reset()
	return true
}

// sequence compares the sequence's value, read after the latest look and negative where it is not known, with that
// look. It tells whether the sequence was found to have gone backwards.
func (f *flow) sequence(last int64) bool {
	if f.unstable || last < 0 || last >= f.horizon.last {
		return false
	}
	f.forgetHorizon()
	return true
}

// reset sets the floors back to the beginning, for holds as well.
func (f *flow) reset() {
	for i := range f.reach {
		f.reach[i] = reach{math.MinInt64, math.MinInt64}
	}
	f.holds.each(func(h *hold) { h.floor = math.MinInt64 })
	f.epoch++
}

// forgetHorizon drops what an ended database session has seen.
func (f *flow) forgetHorizon() {
	f.horizon = newHorizon()
	f.reset()
}

// setLanes changes the lanes that are read. Events of lanes that are not in the set leave the queue; those in flight
// are settled as ever.
func (f *flow) setLanes(lanes LaneSet) {
	gained := f.lanes.total != lanes.total
	for _, l := range lanes.List() {
		gained = gained || !f.lanes.Has(l)
	}
	f.lanes = lanes
	f.epoch++
	if gained {
		f.reset()
	}
	f.filterQueue(func(e *Event) bool { return !lanes.Has(e.Lane) }, nil)
	if lanes.Len() == 0 {
		f.holds, f.lifted = newHolds(), newHolds()
	}
}

// dropQueue forgets all that was read and not handed over; the rows will be read again.
func (f *flow) dropQueue() {
	f.filterQueue(func(*Event) bool { return true }, nil)
	f.reset()
}

// filterQueue removes the events that drop names and tells each of them.
func (f *flow) filterQueue(drop func(*Event) bool, tell func(*Event)) {
	f.queue = slices.DeleteFunc(f.queue, func(e *Event) bool {
		if !drop(e) {
			return false
		}
		if tell != nil {
			tell(e)
		}
		f.forget(e)
		return true
	})
}

// oldest returns the time of the oldest event that waits here, false when none does.
func (f *flow) oldest() (time.Time, bool) {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, part := range [][]*Event{f.queue, f.sending, f.acked, f.settling} {
		if len(part) > 0 {
			earlier(part[0].CreatedAt)
		}
	}
	f.holds.each(func(h *hold) { earlier(h.since) })
	return at, !at.IsZero()
}
