package relay

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
)

// cloneFlow copies a flow deeply, apart from its events, which nothing changes once they have arrived.
func cloneFlow(f *flow) *flow {
	c := *f
	c.reach, c.parked = slices.Clone(f.reach), slices.Clone(f.parked)
	c.queue, c.sending, c.open = slices.Clone(f.queue), slices.Clone(f.sending), slices.Clone(f.open)
	c.acked, c.settling, c.refused = slices.Clone(f.acked), slices.Clone(f.settling), slices.Clone(f.refused)
	c.left = cloneMap(f.left)
	c.known, c.attempts = cloneMap(f.known), cloneMap(f.attempts)
	c.horizon.waiting = maps.Clone(f.horizon.waiting) // nil says something
	for _, hs := range []*holds{&c.failing, &c.paused, &c.catching, &c.lifted} {
		hs.all = cloneMap(hs.all)
		for scope, h := range hs.all {
			own := *h
			hs.all[scope] = &own
		}
	}
	return &c
}

// cloneMap is maps.Clone for maps that are mostly empty.
func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	if len(m) == 0 {
		return make(map[K]V)
	}
	return maps.Clone(m)
}

// digest names a state of the world. States that differ in nothing that a later step could depend on have the same:
// members have no names, and clocks, counters of tries and the numbers of epochs are left out.
type digest [16]byte

// state writes down a state.
type state []byte

func (s *state) num(n int64) { *s = append(*s, byte(min(max(n, -2), 120)+2)) }
func (s *state) ids(ids []int64) {
	s.num(int64(len(ids)))
	for _, id := range ids {
		s.num(id)
	}
}

func (s *state) flags(flags ...bool) {
	b := byte(0)
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	*s = append(*s, b)
}

func (s *state) events(events []*Event) {
	s.num(int64(len(events)))
	for _, e := range events {
		*s = append(*s, byte(rowOf(e.EventID)<<4|e.attempts))
	}
}

func (s *state) scope(c Scope) {
	*s = append(*s, byte(c.Kind), byte(c.ID), byte(c.Partition))
	*s = append(*s, c.Topic...)
	*s = append(*s, c.Key...)
	*s = append(*s, ';')
}

func byScope(a, b Scope) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key),
		cmp.Compare(a.ID, b.ID), cmp.Compare(a.Partition, b.Partition))
}

func (s *state) scopes(scopes []Scope) {
	s.num(int64(len(scopes)))
	slices.SortFunc(scopes, byScope)
	for _, c := range scopes {
		s.scope(c)
	}
}

func (s *state) holds(hs *holds, floors bool) {
	s.num(int64(hs.len()))
	if hs.empty() {
		return
	}
	for _, scope := range slices.SortedFunc(maps.Keys(hs.all), byScope) {
		s.scope(scope)
		if h := hs.all[scope]; floors {
			s.num(h.floor)
			s.num(h.kept)
			s.flags(h.until.IsZero())
		}
	}
}

func (s *state) flow(f *flow) {
	for _, part := range [][]*Event{f.queue, f.sending, f.open, f.acked, f.settling} {
		s.events(part)
	}
	s.num(int64(len(f.refused)))
	for _, r := range f.refused {
		s.events([]*Event{r.event})
		s.num(int64(r.scope.Kind))
	}
	s.num(int64(f.parking))
	s.ids(slices.Sorted(maps.Keys(f.known)))
	s.ids(slices.Sorted(maps.Keys(f.left)))
	for _, r := range f.reach {
		s.num(r.floor)
		s.flags(r.cursor > r.floor)
	}
	s.num(f.horizon.final)
	s.num(f.horizon.last)
	s.flags(f.horizon.waiting != nil, f.horizon.looked)
	if f.horizon.waiting != nil {
		s.num(f.horizon.pending)
		for _, id := range slices.Sorted(maps.Keys(f.horizon.waiting)) {
			*s = append(*s, id...)
		}
	}
	s.holds(&f.failing, true)
	s.holds(&f.paused, true)
	s.holds(&f.catching, false)
	if !f.catching.empty() {
		s.num(f.caught.floor)
		s.flags(f.caught.cursor > f.caught.floor)
	}
	*s = append(*s, f.lanes.bits...)
	kinds := byte(0)
	for _, k := range f.parked {
		kinds |= 1 << k
	}
	*s = append(*s, kinds)
	s.num(f.parkedUpTo)
	for _, id := range slices.Sorted(maps.Keys(f.attempts)) {
		s.num(id)
		s.num(int64(f.attempts[id]))
	}
}

func (s *state) exchange(f *flow, x *modelExchange, outlives bool) {
	if x == nil {
		return
	}
	s.flags(x.requests, x.ghosts, x.looks, x.stale, x.done, x.more, x.look != nil)
	if !x.done {
		s.num(int64(len(x.settle)))
		for _, p := range x.park {
			s.num(p.ID)
			s.num(int64(p.Attempts))
		}
	} else {
		s.num(int64(len(x.settle) - x.settled))
		s.ids(x.parked)
		for _, r := range x.released {
			s.num(r.ID)
			s.scope(r.Scope)
			s.flags(r.Gone)
			s.num(int64(r.Attempts))
		}
		if x.look != nil {
			s.num(x.look.Last)
			for _, w := range x.look.Writers {
				*s = append(*s, w.ID...)
			}
		}
	}
	s.num(int64(len(x.settle)))
	s.num(int64(len(x.park)))
	s.request(f, x, outlives)
}

// request writes down a read, unless it is to be thrown away whatever comes of it.
func (s *state) request(f *flow, x *modelExchange, outlives bool) {
	r := x.req
	dead := r != nil && !outlives && (r.epoch != f.epoch || r.catchUp && r.catches != f.catches)
	s.flags(r != nil, dead)
	if r == nil || dead {
		return
	}
	s.flags(r.catchUp, r.sweep)
	s.num(r.final)
	s.num(int64(r.classes))
	s.scopes(r.Only)
	if x.done {
		s.events(x.events)
		return
	}
	s.num(r.Above)
	s.num(int64(r.Limit))
	slices.Sort(r.Without)
	s.ids(r.Without)
	s.scopes(r.Held)
	*s = append(*s, r.Lanes.bits...)
	for _, k := range r.Parked {
		s.num(int64(k))
	}
	s.num(r.ParkedUpTo)
}

func (w *world) member(m int) state {
	mm := w.members[m]
	s := make(state, 0, 160)
	s.flags(mm.landed, mm.zombie, mm.requests, mm.resettle)
	s.flags(mm.leaving[:]...)
	for _, err := range mm.errs {
		s.num(int64(classOf(err)))
	}
	for _, owner := range w.owner {
		s.flags(int(owner) == m)
	}
	s.exchange(mm.flow, mm.exchange, w.broken == readOutlivesChange)
	s.flow(mm.flow)
	return s
}

// carried tells whether a member may send a copy of the event.
func (w *world) carried(row int) bool {
	is := func(e *Event) bool { return rowOf(e.EventID) == row }
	return slices.ContainsFunc(w.members[:], func(m *modelMember) bool {
		f := m.flow
		return slices.ContainsFunc(f.queue, is) || slices.ContainsFunc(f.sending, is) ||
			slices.ContainsFunc(f.open, is) || m.exchange != nil && slices.ContainsFunc(m.exchange.events, is)
	})
}

// digest of the world.
func (w *world) digest() digest {
	s := make(state, 0, 512)
	for i := range w.cfg.keys {
		r := &w.rows[i]
		s.num(int64(r.phase))
		s.num(r.id)
		s.num(int64(r.cut))
		if w.unpublished(i) || r.phase == drawn || w.carried(i) {
			s.num(int64(r.spare))
		}
		s.flags(r.settled, r.gone, r.skipped, r.copied, r.acked)
	}
	s.num(w.seq)
	s.num(int64(w.cut))
	s.flags(w.paused, w.calm)
	for _, n := range w.left {
		s.num(int64(n))
	}
	for _, id := range slices.Sorted(maps.Keys(w.parked)) {
		p := w.parked[id]
		s.num(id)
		s = append(s, p.EventID[0], byte(p.Scope), byte(p.Attempts))
		s = append(s, p.request...)
	}
	a, b := w.member(0), w.member(1)
	if slices.Compare(a, b) > 0 {
		a, b = b, a
	}
	s = append(append(append(s, a...), '|'), b...)
	sum := sha256.Sum256(s)
	return digest(sum[:16])
}
