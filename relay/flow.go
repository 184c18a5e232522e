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
//	                         -> open (no answer yet) -> acked, or back to the queue
//	                         -> refused -> parked, and forgotten
//
// and goes back to the head of the queue when sending failed, back to acked when settling did.
//
// Where reads begin. floor is an id up to which every row of our lanes is settled, in memory, parked, or behind a hold:
// a read that began when those ids were final (see horizon) has seen to that. Rows in memory are left out of a read by
// id, parked ones and what waits with them by the side table, held ones by their hold, which remembers an id below the
// first of them. Whatever could bring an unseen row below the floor sets it back to the beginning: a lane gained, a new
// database connection, a sequence that went backwards. So the floor only saves work, and a row is lost to it only by a
// fault in this file; the sweep looks for such.
//
// Each class of topics has a floor of its own, since a read may leave classes out whose time has not come. So have the
// scopes that were held and are no more: until reads of their own have found nothing left of them, the other reads go
// on to leave them out, since what came later must not overtake what waited. One read is on its way at a time.
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
	open     []*Event // sent, and left unanswered
	acked    []*Event
	settling []*Event
	refused  []refusal          // to be parked
	parking  int                // of them those that are being parked now, from the first on
	known    map[int64]struct{} // ids of all of these
	left     map[int64]struct{} // of those in flight, ids whose lane was lost meanwhile: another member decides of them
	bytes    int                // memory of all of these
	mean     int                // size of recent events

	failing  holds // unusable topics, partitions that do not answer, keys whose refused event is not parked yet
	paused   holds // by operators
	catching holds // not held any more; what waited is being read
	lifted   holds // topics that are looked at again, not yet proven
	caught   reach // how far the catching ones were read

	parked     []ScopeKind   // the kinds of scopes that parked events may hold
	parkedUpTo int64         // no id above it is parked alone
	attempts   map[int64]int // of released events that are still to be read

	// epoch goes up whenever rows that a read on its way has left out, as held or in memory, may have to be read after
	// all, or its lanes are others: it is thrown away whole, since a later row of a key must not come in before an
	// earlier one. catches does so for the reads of what was held.
	epoch, catches int
	sweepFound     int
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

func newFlow(l limits, strict bool, classes classes, partition func(topic, key string) int32) *flow {
	f := &flow{limits: l, strict: strict, horizon: newHorizon(), classes: classes,
		reach: make([]reach, classes.count()), known: make(map[int64]struct{}), left: make(map[int64]struct{}),
		attempts: make(map[int64]int),
		failing:  newHolds(partition), paused: newHolds(partition), catching: newHolds(partition),
		lifted: newHolds(partition)}
	f.doubtParked()
	f.reset()
	return f
}

// final is H, or an id below all others where there is none.
func (f *flow) final() int64 {
	if f.unstable {
		return noHorizon
	}
	return f.horizon.final
}

// behind tells whether a look at the horizon could move the floor.
func (f *flow) behind() bool {
	low := func(r reach) bool { return r.cursor > r.floor }
	return !f.unstable && (!f.horizon.looked || f.horizon.waiting != nil || slices.ContainsFunc(f.reach, low) ||
		!f.catching.empty() && low(f.caught))
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

// reset sets the floors back to the beginning, for holds as well. What is being caught up with is found on the way.
func (f *flow) reset() {
	for i := range f.reach {
		f.reach[i] = reach{math.MinInt64, math.MinInt64}
	}
	for _, hs := range []*holds{&f.failing, &f.paused} {
		for _, h := range hs.all {
			h.floor = math.MinInt64
		}
	}
	f.catching = newHolds(f.catching.partition)
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
	for _, e := range slices.Concat(f.sending, f.open) {
		if !lanes.Has(e.Lane) {
			f.left[e.ID] = struct{}{}
		}
	}
	if gained {
		f.reset()
	}
	f.filterQueue(func(e *Event) bool { return !lanes.Has(e.Lane) }, nil)
	f.dropRefused(func(e *Event) bool { return !lanes.Has(e.Lane) })
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
	for _, part := range [][]*Event{f.queue, f.sending, f.open, f.acked, f.settling} {
		if len(part) > 0 {
			earlier(part[0].CreatedAt)
		}
	}
	for _, hs := range []*holds{&f.failing, &f.paused} {
		for _, h := range hs.all {
			if !h.since.IsZero() {
				earlier(h.since)
			}
		}
	}
	return at, !at.IsZero()
}
