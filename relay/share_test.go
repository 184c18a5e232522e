package relay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func view(owners []int, peers ...int) View {
	var v View
	for _, o := range owners {
		v.Lanes = append(v.Lanes, Lane{Owner: o})
	}
	for _, p := range peers {
		v.Peers = append(v.Peers, Peer{ID: p})
	}
	return v
}

func TestDivide(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		dead []Peer
		want share
	}{
		"alone takes all": {view([]int{0, 0, 0, 0}, 1), nil, share{take: 4}},
		"keeps its part":  {view([]int{1, 1, 2, 2}, 1, 2), nil, share{own: []int{0, 1}}},
		"gives up what is too much": {view([]int{1, 1, 1, 1}, 1, 2), nil,
			share{own: []int{0, 1}, leave: []int{2, 3}}},
		"the first has the odd one": {view([]int{1, 1, 1, 0}, 1, 2, 3), nil,
			share{own: []int{0, 1}, leave: []int{2}}},
		"waits while none is free": {view([]int{2, 2, 2, 2}, 1, 2), nil, share{}},
		"takes only its part":      {view([]int{0, 0, 0, 0}, 1, 2), nil, share{take: 2}},
		"takes from the dead": {view([]int{1, 1, 2, 2}, 1, 2), []Peer{{ID: 2}},
			share{own: []int{0, 1}, take: 2}},
		"takes from the forgotten": {view([]int{1, 1, 9, 9}, 1), nil, share{own: []int{0, 1}, take: 2}},
		"more members than lanes":  {view([]int{2, 3}, 2, 3, 4, 1), nil, share{}},
		"another number is wanted": {View{Lanes: view([]int{1, 2}, 1, 2).Lanes, Peers: []Peer{{ID: 1}, {ID: 2}},
			NextLanes: 8}, nil, share{leave: []int{0}}},
		"all free for another number": {View{Lanes: view([]int{0, 0}).Lanes, Peers: []Peer{{ID: 1}}, NextLanes: 8},
			nil, share{resize: true}},
		"one is left before the other": {View{Lanes: view([]int{0, 2}).Lanes, Peers: []Peer{{ID: 1}, {ID: 2}},
			NextLanes: 8}, nil, share{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := divide(c.view, 1, c.dead)
			if !slices.Equal(got.own, c.want.own) || !slices.Equal(got.leave, c.want.leave) ||
				got.take != c.want.take || got.resize != c.want.resize {
				t.Errorf("divide gives %+v, want %+v", got, c.want)
			}
		})
	}
}

// Whatever the start, members that follow divide reach an even share in two rounds, and no lane moves that need not.
func TestDivideSettles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		members := 1 + rnd.IntN(6)
		v := View{Lanes: make([]Lane, 1<<rnd.IntN(7))}
		for id := 1; id <= members; id++ {
			v.Peers = append(v.Peers, Peer{ID: id})
		}
		for i := range v.Lanes {
			v.Lanes[i].Owner = rnd.IntN(members + 2) // 0 and one unknown owner among them
		}
		for range 2 {
			for id := 1; id <= members; id++ {
				s := divide(v, id, nil)
				for _, l := range s.leave {
					v.Lanes[l].Owner = 0
				}
				for i := range v.Lanes {
					if s.take > 0 && (v.Lanes[i].Owner == 0 || v.Lanes[i].Owner > members) {
						v.Lanes[i].Owner = id
						s.take--
					}
				}
			}
		}
		counts := make([]int, members+2)
		for _, l := range v.Lanes {
			counts[l.Owner]++
		}
		for id := 1; id <= members; id++ {
			if part := len(v.Lanes) / members; counts[id] < part || counts[id] > part+1 {
				t.Fatalf("%d lanes over %d members came to %v", len(v.Lanes), members, counts)
			}
			if s := divide(v, id, nil); len(s.leave) > 0 || s.take > 0 {
				t.Fatalf("an even share still moves: %+v", s)
			}
		}
	}
}

func TestWitness(t *testing.T) {
	const lease = 5 * time.Second
	begin := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	peers := func(beat int64) View { return View{Peers: []Peer{{ID: 1}, {ID: 2, Beat: beat}}} }

	w := make(witness)
	for s := range 5 {
		if dead := w.look(peers(7), 1, at(s), lease); dead != nil {
			t.Fatalf("dead after %d s: %v", s, dead)
		}
	}
	if dead := w.look(peers(7), 1, at(5), lease); len(dead) != 1 || dead[0] != (Peer{ID: 2, Beat: 7}) {
		t.Errorf("after the lease: %v", dead)
	}
	if dead := w.look(peers(8), 1, at(6), lease); dead != nil {
		t.Errorf("after a beat: %v", dead)
	}

	stalled := make(witness) // the database gave no look for a minute: that makes nobody stale
	stalled.look(peers(7), 1, at(0), lease)
	for look := range staleLooks - 1 {
		if dead := stalled.look(peers(7), 1, at(60), lease); dead != nil {
			t.Errorf("dead after look %d behind a stall: %v", look, dead)
		}
	}
	gone := View{Peers: []Peer{{ID: 1, Gone: true}, {ID: 2, Gone: true}}}
	if dead := make(witness).look(gone, 1, at(0), lease); len(dead) != 1 || dead[0].ID != 2 {
		t.Errorf("a free lock: %v; want the other at once, and never oneself", dead)
	}
}
