package relay

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// step is what happened, of which member and which event, lane or kind.
type step struct {
	what string
	m, i int8
}

func (s step) String() string {
	if s.m < 0 {
		return fmt.Sprintf("%s %d", s.what, s.i)
	}
	return fmt.Sprintf("m%d: %s %d", s.m, s.what, s.i)
}

// steps tells every world that may come next.
func (w *world) steps(next func(step, *world)) {
	w.tableSteps(next)
	for m := range w.members {
		try := func(what string, i int, do func(n *world, mm *modelMember)) {
			n, mm := w.fork(m)
			do(n, mm)
			n.handOver(m)
			n.trades(m, func(n *world) { next(step{what, int8(m), int8(i)}, n) })
		}
		w.kafkaSteps(m, try)
		w.exchangeSteps(m, try)
		w.memberSteps(m, try)
	}
}

type tryFunc = func(what string, i int, do func(n *world, mm *modelMember))

// tableSteps are what writers and operators do.
func (w *world) tableSteps(next func(step, *world)) {
	try := func(what string, i int, do func(n *world)) {
		n := *w
		do(&n)
		next(step{what, -1, int8(i)}, &n)
	}
	open := false
	for i := range w.cfg.keys {
		switch w.rows[i].phase {
		case unwritten:
			if w.serialised(i) {
				try("a writer draws an id for", i, func(n *world) {
					n.seq++
					n.rows[i] = modelRow{phase: drawn, id: n.seq, cut: n.cut}
				})
			}
		case drawn:
			open = true
			try("commit of", i, func(n *world) { n.rows[i].phase = committed })
			if w.may(rollback) {
				try("rollback of", i, func(n *world) {
					n.spend(rollback)
					n.rows[i] = modelRow{phase: absent}
				})
			}
		}
	}
	if !open && w.seq > 0 && w.may(truncation) {
		try("truncate, restart identity", int(w.cut), (*world).truncate)
	}
	w.operatorSteps(try)
}

func (w *world) truncate() {
	w.spend(truncation)
	w.seq = 0
	w.cut++
	for i := range w.cfg.keys {
		if w.rows[i].phase == committed {
			w.rows[i].gone = true
		}
	}
}

func (w *world) operatorSteps(try func(what string, i int, do func(n *world))) {
	if w.paused {
		try("resume", 0, func(n *world) { n.paused = false })
	} else if w.may(pausing) {
		try("pause", 0, func(n *world) {
			n.spend(pausing)
			n.paused = true
		})
	}
	if !w.may(word) {
		return
	}
	for id, p := range w.parked {
		for _, request := range []string{"retry", "discard"} {
			if p.request == "" {
				try(request+" of id", int(id), func(n *world) {
					n.spend(word)
					n.request(id, request)
				})
			}
		}
	}
}

func (w *world) request(id int64, request string) {
	p := *w.parked[id]
	p.request = request
	w.parked = maps.Clone(w.parked)
	w.parked[id] = &p
}

// memberSteps are beats, lanes and time.
func (w *world) memberSteps(m int, try tryFunc) {
	mm := w.members[m]
	if w.tells(mm) {
		try("beat", 0, func(n *world, _ *modelMember) { n.beat(m) })
	}
	if len(mm.flow.failing.due(modelLater)) > 0 {
		try("looks again at topics", 0, func(n *world, mm *modelMember) { n.lift(mm) })
	}
	owns := false
	for l, owner := range w.owner {
		mine := int(owner) == m
		owns = owns || mine
		switch {
		case owner == -1 && !mm.zombie && w.used(l):
			try("takes lane", l, func(n *world, _ *modelMember) {
				n.owner[l] = int8(m)
				n.setLanes(m)
			})
		case mine && !mm.zombie && !mm.leaving[l] && w.may(move):
			try("drains lane", l, func(n *world, mm *modelMember) {
				n.spend(move)
				mm.leaving[l] = true
				n.setLanes(m)
			})
		case mine && !mm.zombie && mm.leaving[l] && !mm.flow.carries([]int{l}):
			try("releases lane", l, func(n *world, mm *modelMember) { n.owner[l], mm.leaving[l] = -1, false })
		case mine && !mm.zombie && mm.leaving[l] && w.may(eviction):
			try("releases, its drain timed out, lane", l, func(n *world, mm *modelMember) {
				n.spend(eviction)
				n.excuse(mm, l)
				n.owner[l], mm.leaving[l] = -1, false
			})
		}
	}
	if owns && !mm.zombie && w.may(eviction) {
		try("is evicted", 0, func(n *world, _ *modelMember) { n.evict(m) })
	}
}

// tells tells whether a beat may bring a member anything. Where nothing is ever parked, what it expects of the side
// table makes no difference.
func (w *world) tells(mm *modelMember) bool {
	return mm.zombie || w.paused || !mm.flow.paused.empty() || w.cfg.left[refusing] > 0 || w.cut > 0
}

func (w *world) used(lane int) bool {
	return slices.ContainsFunc(w.cfg.keys, func(key string) bool { return simLane(key) == lane })
}

// excuse gives what is in flight in a lane a reason for another copy.
func (w *world) excuse(mm *modelMember, lane int) {
	f := mm.flow
	for _, part := range [][]*Event{f.sending, f.open, f.acked, f.settling} {
		for _, e := range part {
			if e.Lane == lane {
				w.rows[rowOf(e.EventID)].spare++
			}
		}
	}
}

// evict frees the lanes of a member, which goes on with what it has and hands nothing more over.
func (w *world) evict(m int) {
	w.spend(eviction)
	mm := w.members[m]
	mm.zombie = true
	for l, owner := range w.owner {
		if int(owner) == m {
			w.excuse(mm, l)
			w.owner[l] = -1
		}
	}
	if mm.exchange != nil {
		x := *mm.exchange
		x.stale = true
		mm.exchange = &x
	}
}

// beat brings a member what stands in the side tables, or that it was given up.
func (w *world) beat(m int) {
	mm := w.members[m]
	if mm.zombie {
		mm.zombie, mm.leaving = false, [4]bool{}
		w.setLanes(m)
		return
	}
	f := mm.flow
	f.sequence(w.seq)
	f.parked, f.parkedUpTo, mm.requests = nil, math.MinInt64, false
	for id, p := range w.parked {
		mm.requests = mm.requests || p.request != ""
		if !slices.Contains(f.parked, p.Scope) {
			f.parked = append(f.parked, p.Scope)
		}
		if p.Scope == ScopeEvent {
			f.parkedUpTo = max(f.parkedUpTo, id)
		}
	}
	var pauses []Pause
	if w.paused {
		pauses = []Pause{{ID: 1, Scope: w.cfg.pause}}
	}
	carried := slices.Clone(f.queue)
	if begun, _ := f.pause(pauses, modelNow); w.broken == pauseLeavesCarriedRows && len(begun) > 0 {
		putBack(f, carried)
	}
}

func (w *world) lift(mm *modelMember) {
	f := mm.flow
	f.lift(modelLater)
	if w.broken == floorKeptOverLiftedHold {
		for _, r := range f.reach {
			f.caught.floor = max(f.caught.floor, r.floor)
		}
	}
}
