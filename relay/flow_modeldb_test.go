package relay

import (
	"maps"
	"slices"
)

// do makes an exchange at the server, in the order of its parts.
func (w *world) do(m int, x *modelExchange) *modelExchange {
	d := *x
	d.done = true
	if d.looks {
		d.look = w.lookAt()
	}
	w.parked = maps.Clone(w.parked)
	for _, p := range d.park {
		w.park(m, &d, p)
	}
	w.serve(m, &d)
	if d.req != nil {
		w.read(&d)
	}
	for _, ref := range d.settle {
		d.settled += w.settle(ref)
	}
	return &d
}

func (w *world) settle(ref Ref) (found int) {
	for i := range w.cfg.keys {
		r := &w.rows[i]
		if r.id != ref.ID || !w.unpublished(i) || token(i) != ref.EventID && w.broken != settleByIDAlone {
			continue
		}
		r.settled = true
		found++
		if !r.acked {
			w.wrong("settled without an acknowledgement", i)
		}
	}
	return found
}

// park is the statement that does so: whoever does not own the lane may not, and a published event can't be.
func (w *world) park(m int, x *modelExchange, p Parking) {
	row := rowOf(p.EventID)
	owns := int(w.owner[p.Lane]) == m && !x.stale
	if !owns && w.broken != lateParkByZombie && w.broken != parkWithoutLane {
		return
	}
	if !w.unpublished(row) && w.broken != lateParkByZombie && w.broken != parkThoughPublished {
		return
	}
	if !w.unpublished(row) && !w.rows[row].gone {
		w.wrong("parked although it is published", row)
	}
	w.parked[p.ID] = &simParked{Parking: p}
	x.parked = append(x.parked, p.ID)
}

// serve releases parked events as operators want, and those that are not to be published any more.
func (w *world) serve(m int, x *modelExchange) {
	for _, id := range slices.Sorted(maps.Keys(w.parked)) {
		p := w.parked[id]
		row := rowOf(p.EventID)
		ghost := !w.unpublished(row)
		if int(w.owner[p.Lane]) != m || x.stale || !(x.requests && p.request != "" || x.ghosts && ghost) {
			continue
		}
		r := Released{ID: id, Attempts: p.Attempts, Gone: ghost || p.request == "discard"}
		e := w.event(row)
		e.ID = id
		r.Scope = scopeOf(e, p.Scope, simPartition)
		if r.Gone && !ghost {
			w.rows[row].gone = true
		}
		x.released = append(x.released, r)
		delete(w.parked, id)
	}
}

func (w *world) read(x *modelExchange) {
	for id := int64(1); id <= w.seq && len(x.events) < x.req.Limit; id++ {
		for i := range w.cfg.keys {
			if w.rows[i].id != id || !w.unpublished(i) {
				continue
			}
			if e := w.event(i); matches(w.parked, x.req, e) {
				x.events = append(x.events, e)
			}
		}
	}
	x.more = len(x.events) == x.req.Limit
}
