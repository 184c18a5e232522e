package relay

import (
	"log/slog"
	"math"
	"slices"
)

// refusal is an event that Kafka refused and that is not parked yet. It stays in memory until it is.
type refusal struct {
	event    *Event
	scope    Scope
	err      error
	attempts int
}

// refuse sets an event aside. What waits with it by the policy of its topic waits from now on.
func (f *flow) refuse(e *Event, err error) {
	kind := f.classes.refused(e.class).scope(e)
	r := refusal{event: e, scope: scopeOf(e, kind, nil), err: err, attempts: e.attempts + 1}
	f.refused = append(f.refused, r)
	if _, stands := f.failing.all[r.scope]; kind != ScopeEvent && !stands {
		h := &hold{scope: r.scope, since: e.CreatedAt, err: err}
		f.holdBack(&f.failing, h)
		h.keep(e)
	}
}

// nextPark returns what is to be parked.
func (f *flow) nextPark() (list []Parking) {
	f.parking = len(f.refused)
	for _, r := range f.refused {
		list = append(list, r.parking())
	}
	return list
}

func (r refusal) parking() Parking {
	e := r.event
	return Parking{Ref: Ref{e.ID, e.EventID}, Lane: e.Lane, Topic: e.Topic, Key: e.Key,
		AggregateType: e.AggregateType, AggregateID: e.AggregateID, EventType: e.EventType,
		Scope: r.scope.Kind, Class: classOf(r.err), Reason: r.err.Error(), Attempts: r.attempts}
}

// wereParked takes in which of them stand in the side table now: it keeps what waits with them from being read. Of the
// others the row is gone, or published, or its lane belongs to another member by now: what waits with them flows on.
func (f *flow) wereParked(ids []int64) {
	done := f.refused[:f.parking]
	f.refused, f.parking = f.refused[f.parking:], 0
	for _, r := range done {
		f.forget(r.event)
		parked := slices.Contains(ids, r.event.ID)
		if parked && !slices.Contains(f.parked, r.scope.Kind) {
			f.parked = append(f.parked, r.scope.Kind)
		}
		if r.scope.Kind == ScopeEvent {
			if parked {
				f.parkedUpTo = max(f.parkedUpTo, r.event.ID)
			}
			continue
		}
		if f.refuses(r.scope) {
			continue
		}
		if h := f.failing.all[r.scope]; h != nil {
			f.failing.drop(h)
			if !parked || h.kept < r.event.ID-1 { // an earlier event that came into view later does not wait behind it
				f.catchUp(h)
			}
		}
	}
}

// parkingFailed makes them wait for another try.
func (f *flow) parkingFailed() { f.parking = 0 }

// refuses tells whether an event of the scope is still to be parked.
func (f *flow) refuses(scope Scope) bool {
	return slices.ContainsFunc(f.refused, func(r refusal) bool { return r.scope == scope })
}

// dropRefused forgets refused events: whoever owns their lanes finds them.
func (f *flow) dropRefused(drop func(*Event) bool) {
	var gone []Scope
	kept := f.refused[:0]
	for i, r := range f.refused {
		if i >= f.parking && drop(r.event) { // what is being parked now is dropped by its result
			f.forget(r.event)
			gone = append(gone, r.scope)
		} else {
			kept = append(kept, r)
		}
	}
	f.refused = kept
	for _, scope := range gone {
		if h := f.failing.all[scope]; h != nil && !f.refuses(scope) {
			f.failing.drop(h)
			f.catchUp(h)
		}
	}
}

// doubtParked expects any kind of parked events: a member that owned our lanes before may have parked some.
func (f *flow) doubtParked() {
	f.parked, f.parkedUpTo = []ScopeKind{ScopeKey, ScopeAggregate, ScopeEvent}, math.MaxInt64
}

// logRefused tells of events that were refused.
func logRefused(log *slog.Logger, refused []refusal) {
	logFew(log, refused, "refused events", func(r refusal) {
		waits := map[ScopeKind]string{ScopeEvent: "nothing waits", ScopeKey: "its key waits",
			ScopeAggregate: "its aggregate waits"}
		log.Error("an event is refused and set aside; "+waits[r.scope.Kind]+" until an operator has decided "+
			"(posthaste parked), all others flow", "id", r.event.ID, "event_id", r.event.EventID, "topic",
			r.event.Topic, "key", r.event.Key, "attempts", r.attempts, "reason", r.err)
	})
}
