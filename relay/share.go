package relay

import (
	"slices"
	"time"
)

// witness remembers when each peer was last seen to move. It compares beats, not clocks: a beat counter that has not
// moved over several looks of our own and for the lease on our own monotonic clock is stale, whatever any wall clock
// says. A stalled database gives no looks, so it makes no one stale.
type witness map[int]sighting

type sighting struct {
	beat  int64
	at    time.Time
	looks int // successful beats of ours since
}

// staleLooks is how many of our own beats must have succeeded while a peer's did not.
const staleLooks = 3

// look takes a view in and returns the peers that are dead: their lock is free, or they are stale.
func (w witness) look(v View, me int, now time.Time, lease time.Duration) (dead []Peer) {
	seen := make(map[int]bool, len(v.Peers))
	for _, p := range v.Peers {
		seen[p.ID] = true
		if p.ID == me {
			continue
		}
		s, known := w[p.ID]
		if !known || s.beat != p.Beat {
			s = sighting{beat: p.Beat, at: now}
		} else {
			s.looks++
		}
		w[p.ID] = s
		if p.Gone || s.looks >= staleLooks && now.Sub(s.at) >= lease {
			dead = append(dead, p)
		}
	}
	for id := range w {
		if !seen[id] {
			delete(w, id)
		}
	}
	return dead
}

// share says what a member does about the lanes at one beat.
type share struct {
	own    []int // owned, less what leaves
	leave  []int // to be drained and released
	take   int   // free lanes to take, those of the dead among them
	resize bool  // all lanes are free and another number is wanted
}

// divide gives every live member an even part: with L lanes and M members each has L/M, the first L%M in order of id
// one more. A member above its part gives lanes up from the end; one below takes free ones. So only lanes that must
// move do.
func divide(v View, me int, dead []Peer) share {
	var live []int
	for _, p := range v.Peers {
		if !slices.ContainsFunc(dead, func(d Peer) bool { return d.ID == p.ID }) {
			live = append(live, p.ID)
		}
	}
	slices.Sort(live)
	var s share
	free := 0
	for i, l := range v.Lanes {
		switch {
		case l.Owner == me:
			s.own = append(s.own, i)
		case !slices.Contains(live, l.Owner):
			free++
		}
	}
	part := 0
	if rank := slices.Index(live, me); rank >= 0 && v.NextLanes == 0 {
		part = len(v.Lanes) / len(live)
		if rank < len(v.Lanes)%len(live) {
			part++
		}
	}
	if n := len(s.own); n > part {
		s.own, s.leave = s.own[:part], s.own[part:]
	} else {
		s.take = min(part-n, free)
	}
	s.resize = v.NextLanes != 0 && free == len(v.Lanes)
	return s
}
