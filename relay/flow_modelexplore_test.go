package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// exploration is a breadth-first search through all states of a world, so that the first flaw found has a shortest
// trace.
type exploration struct {
	nodes       []node
	seen        map[digest]struct{}
	calm        map[digest]struct{} // states that come to a good end
	transitions int
	depth       int
}

type node struct {
	before int32
	step   step
}

// found is a flaw and how the world came to it.
type found struct {
	flaw  error
	trace []step
}

func (f *found) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v, after %d steps:", f.flaw, len(f.trace))
	for _, s := range f.trace {
		fmt.Fprintf(&b, "\n\t%v", s)
	}
	return b.String()
}

// explore looks at every state, and sees each come to rest once faults have ended.
func explore(cfg *modelConfig, broken mutation, atMost int) (*exploration, *found) {
	x := &exploration{seen: map[digest]struct{}{}, calm: map[digest]struct{}{}, nodes: []node{{before: -1}}}
	type reached struct {
		*world
		at int32
	}
	level := []reached{{newWorld(cfg, broken), 0}}
	x.seen[level[0].digest()] = struct{}{}
	var bad *found
	for len(level) > 0 && bad == nil {
		var below []reached
		for i, w := range level {
			level[i].world = nil // its memory is needed
			w.steps(func(s step, n *world) {
				x.transitions++
				if bad != nil {
					return
				}
				if n.flaw != nil {
					bad = &found{n.flaw, append(x.trace(w.at), s)}
					return
				}
				d := n.digest()
				if _, seen := x.seen[d]; seen {
					return
				}
				x.seen[d] = struct{}{}
				x.nodes = append(x.nodes, node{w.at, s})
				if err := x.rest(n); err != nil {
					bad = &found{fmt.Errorf("once faults have ended: %w", err), append(x.trace(w.at), s)}
				}
				below = append(below, reached{n, int32(len(x.nodes) - 1)})
			})
			if bad != nil || len(x.nodes) > atMost {
				return x, bad
			}
		}
		level = below
		x.depth++
	}
	return x, bad
}

func (x *exploration) trace(at int32) (steps []step) {
	for ; at > 0; at = x.nodes[at].before {
		steps = append(steps, x.nodes[at].step)
	}
	slices.Reverse(steps)
	return steps
}

// rest ends the faults, lets everything flow and tells what is wrong when nothing moves any more.
func (x *exploration) rest(w *world) error {
	n, _ := w.fork(0)
	n, _ = n.fork(1)
	n.endFaults()
	var way []digest
	for range 40 {
		d := n.digest()
		if _, good := x.calm[d]; good {
			break
		}
		if len(way) > 0 && way[len(way)-1] == d {
			if err := n.verdict(); err != nil {
				return err
			}
			break
		}
		way = append(way, d)
		if n.round(); n.flaw != nil {
			return n.flaw
		}
		if len(way) == 40 {
			return errNotCalm
		}
	}
	for _, d := range way {
		x.calm[d] = struct{}{}
	}
	return nil
}

func (w *world) endFaults() {
	w.calm, w.left, w.paused = true, budget{}, false
	for i := range w.cfg.keys {
		switch w.rows[i].phase {
		case unwritten:
			w.rows[i].phase = absent
		case drawn:
			w.rows[i].phase = committed
		}
	}
}

// round lets each member do once all that it can.
func (w *world) round() {
	for m := range w.members {
		mm := w.members[m]
		w.beat(m)
		for l, owner := range w.owner {
			if int(owner) == m && mm.leaving[l] && !mm.flow.carries([]int{l}) {
				w.owner[l], mm.leaving[l] = -1, false
			}
			if w.owner[l] == -1 && l%2 == m && w.used(l) {
				w.owner[l] = int8(m)
				w.setLanes(m)
			}
		}
		w.lift(mm)
		for len(mm.flow.open) > 0 {
			w.answer(mm, slices.Clone(mm.flow.open), len(mm.flow.open), false)
		}
		for id, p := range w.parked {
			if p.request == "" && w.unpublished(rowOf(p.EventID)) {
				w.request(id, "retry")
			}
		}
		w.beat(m)
		w.finish(m)
		w.trade(m, func(f *flow) *request { return f.nextCatchUp(2) })
		w.trade(m, func(f *flow) *request { return f.nextRead(2, f.classes.all(), w.cut > 0) })
	}
}

// finish brings what is on its way to its end.
func (w *world) finish(m int) {
	mm := w.members[m]
	if x := mm.exchange; x != nil {
		if !x.done {
			mm.exchange = w.do(m, x)
		}
		w.arrive(mm)
	}
	w.handOver(m)
	if len(mm.flow.sending) > 0 {
		if !mm.landed {
			w.land(mm, func(*world, int, *Event) error { return nil })
		}
		w.outcomes(mm)
	}
}

func (w *world) trade(m int, read func(f *flow) *request) {
	mm := w.members[m]
	if mm.exchange = w.ask(mm, read, len(mm.flow.parked) > 0); mm.exchange != nil {
		w.finish(m)
	}
}

func (w *world) verdict() error {
	for i := range w.cfg.keys {
		switch r := &w.rows[i]; {
		case r.phase != committed || r.gone:
		case !r.copied:
			return fmt.Errorf("lost: event %d (settled: %v)", i, r.settled)
		case !r.settled:
			return fmt.Errorf("never settled: event %d", i)
		}
	}
	if len(w.parked) > 0 {
		return errors.New("something stays parked for ever")
	}
	return nil
}
