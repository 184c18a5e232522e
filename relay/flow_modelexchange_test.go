package relay

import (
	"maps"
	"slices"
)

// exchangeSteps are those of an exchange: it is asked, made, and its answer arrives, as far as it does.
func (w *world) exchangeSteps(m int, try tryFunc) {
	x := w.members[m].exchange
	switch {
	case x == nil:
		w.askSteps(m, try)
	case !x.done:
		try("its exchange is made", 0, func(n *world, mm *modelMember) { mm.exchange = n.do(m, x) })
		if w.may(sessionEnd) {
			try("its session ends, nothing was done", 0, func(n *world, mm *modelMember) {
				n.spend(sessionEnd)
				n.disconnect(mm)
			})
		}
	default:
		try("the answer comes", 0, func(n *world, mm *modelMember) { n.arrive(mm) })
		if w.may(sessionEnd) {
			try("its session ends, all was done", 0, func(n *world, mm *modelMember) {
				n.spend(sessionEnd)
				n.disconnect(mm)
			})
		}
	}
}

// trades tells of the worlds in which the member has asked for an exchange, if it has anything to settle or to park:
// the loop does so at once, and a read comes along where there is room.
func (w *world) trades(m int, next func(n *world)) {
	mm := w.members[m]
	f := mm.flow
	if w.flaw != nil || mm.exchange != nil || len(f.acked)+len(f.refused) == 0 {
		next(w)
		return
	}
	reads := w.reads(m)
	if len(reads) == 0 {
		reads = append(reads, func(*flow) *request { return nil })
	}
	for _, read := range reads {
		n, mm := w.fork(m)
		n.send(m, n.ask(mm, read, false))
		next(n)
	}
}

// reads are those that a member may make now.
func (w *world) reads(m int) (reads []func(f *flow) *request) {
	mm := w.members[m]
	if mm.zombie || mm.flow.lanes.Len() == 0 {
		return nil
	}
	if mm.flow.nextRead(2, 1, false) == nil {
		return nil
	}
	for _, due := range w.cfg.dues {
		reads = append(reads, func(f *flow) *request { return f.nextRead(2, due, false) })
	}
	if !mm.flow.catching.empty() {
		reads = append(reads, func(f *flow) *request { return f.nextCatchUp(2) })
	}
	return reads
}

// send lets an exchange be on its way.
func (w *world) send(m int, x *modelExchange) {
	mm := w.members[m]
	if mm.exchange = x; x != nil && (!w.cfg.late || w.calm) {
		mm.exchange = w.do(m, x)
	}
}

// askSteps are the exchanges that a member with nothing to settle may ask for. A read that would find nothing and teach
// nothing is left out: it would bring nothing later, either.
func (w *world) askSteps(m int, try tryFunc) {
	for i, read := range w.reads(m) {
		n, mm := w.fork(m)
		if mm.exchange = n.ask(mm, read, false); !mm.exchange.requests {
			mm.exchange = n.do(m, mm.exchange)
			idle := len(mm.exchange.events) == 0
			if n.arrive(mm); idle && slices.Equal(n.member(m), w.member(m)) {
				continue
			}
		}
		try("reads", i, func(n *world, mm *modelMember) { n.send(m, n.ask(mm, read, false)) })
	}
	ghost := func(p *simParked) bool { return !w.unpublished(rowOf(p.EventID)) }
	mm := w.members[m]
	if len(mm.flow.parked) > 0 && !mm.zombie && mm.flow.lanes.Len() > 0 &&
		slices.ContainsFunc(slices.Collect(maps.Values(w.parked)), ghost) {
		try("looks for ghosts", 0, func(n *world, mm *modelMember) {
			n.send(m, n.ask(mm, func(*flow) *request { return nil }, true))
		})
	}
}

// ask returns the exchange that the loop would make with such a read, nil for none.
func (w *world) ask(mm *modelMember, read func(f *flow) *request, ghosts bool) *modelExchange {
	f := mm.flow
	x := &modelExchange{req: read(f), ghosts: ghosts}
	if !mm.zombie && f.lanes.Len() > 0 {
		x.requests = mm.requests && f.catching.empty() && !f.stopped()
	}
	if len(f.acked) > 0 {
		x.settle = f.nextSettle()
	}
	if len(f.refused) > 0 {
		x.park = f.nextPark()
	}
	x.looks = x.req != nil && (f.strict || f.behind())
	if x.req == nil && x.settle == nil && x.park == nil && !x.requests && !ghosts {
		return nil
	}
	return x
}

// arrive takes an answer in, in the order of loop.settleExchange.
func (w *world) arrive(mm *modelMember) {
	x, f := mm.exchange, mm.flow
	mm.exchange = nil
	if x.settle != nil {
		f.settled()
		if x.settled < len(x.settle) && !mm.resettle {
			f.reset()
		}
		mm.resettle = false
	}
	if x.park != nil {
		f.wereParked(x.parked)
	}
	mm.requests = mm.requests && !x.requests
	f.release(x.released)
	if w.broken == releaseWithoutCatchUp && len(x.released) > 0 {
		dropCatching(f)
	}
	if x.req == nil {
		return
	}
	r := *x.req
	if x.look != nil {
		f.observe(*x.look)
		r.final = max(r.final, f.final())
	}
	if w.broken == readOutlivesChange {
		r.epoch, r.catches = f.epoch, f.catches
	}
	events := make([]*Event, len(x.events))
	for i, e := range x.events {
		own := *e
		events[i] = &own
	}
	f.arrived(&r, events, x.more)
	if w.broken == floorByLastID && len(events) > 0 {
		for i := range f.reach {
			if r.classes.has(i) {
				f.reach[i].floor = max(f.reach[i].floor, events[len(events)-1].ID)
			}
		}
	}
}

// disconnect gives the session up, see loop.disconnect and loop.open.
func (w *world) disconnect(mm *modelMember) {
	if mm.exchange.settle != nil {
		mm.flow.unsettled()
		mm.resettle = true
	}
	mm.exchange = nil
	mm.flow.parkingFailed()
	mm.flow.forgetHorizon()
}
