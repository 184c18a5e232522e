package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func (b *bed) join(t *testing.T) relay.Membership {
	t.Helper()
	m, err := b.store.Join(t.Context())
	must(t, err)
	t.Cleanup(m.Close)
	return m
}

func beat(t *testing.T, m relay.Membership) relay.View {
	t.Helper()
	v, err := m.Beat(t.Context(), relay.Report{})
	must(t, err)
	return v
}

func act(t *testing.T, m relay.Membership, dead []relay.Peer, take int) []int {
	t.Helper()
	lanes, err := m.Act(t.Context(), dead, take, 1)
	must(t, err)
	return lanes
}

// owned returns the lanes that a member has by the view.
func owned(v relay.View, id int) (lanes []int) {
	for i, l := range v.Lanes {
		if l.Owner == id {
			lanes = append(lanes, i)
		}
	}
	return lanes
}

func TestMembership(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		a, c := b.join(t), b.join(t)
		v := beat(t, a)
		if len(v.Peers) != 2 || len(v.Lanes) != 8 || v.Pooled || v.NextLanes != 0 ||
			time.Since(v.Now).Abs() > time.Minute {
			t.Fatalf("first beat saw %+v", v)
		}
		if got := act(t, a, nil, 5); len(got) != 5 {
			t.Fatalf("took %v, want five lanes", got)
		}
		if got := act(t, c, nil, 5); len(got) != 3 {
			t.Fatalf("took %v of the three that are left", got)
		}
		before := beat(t, a)
		must(t, a.Release(t.Context(), owned(before, a.ID())[:1]))
		after := beat(t, c)
		freed := owned(before, a.ID())[0]
		if after.Lanes[freed].Owner != 0 || after.Lanes[freed].Epoch != before.Lanes[freed].Epoch+1 {
			t.Errorf("a released lane is %+v, before %+v", after.Lanes[freed], before.Lanes[freed])
		}
		must(t, a.Leave(t.Context()))
		v = beat(t, c)
		if len(v.Peers) != 1 || len(owned(v, 0)) != 5 {
			t.Errorf("after the other left: %+v", v)
		}
		if _, err := a.Beat(t.Context(), relay.Report{}); !errors.Is(err, relay.ErrEvicted) {
			t.Errorf("beat after leaving: %v, want ErrEvicted", err)
		}
	})
}

func TestDeathShowsAtOnce(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		a, c := b.join(t), b.join(t)
		act(t, c, nil, 8)
		if v := beat(t, a); v.Peers[0].Gone || v.Peers[1].Gone {
			t.Fatalf("a living member shows as gone: %+v", v.Peers)
		}
		exec(t, b.admin, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' "+
			"and objid = "+strconv.Itoa(c.ID())+
			" and database = (select oid from pg_database where datname = current_database())")
		waitFor(t, b.admin,
			"select not exists (select from pg_locks where locktype = 'advisory' and objid = "+strconv.Itoa(c.ID())+
				" and database = (select oid from pg_database where datname = current_database()))")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Wait(ctx, func() {}); err == nil {
			t.Error("a broken connection lets Wait return without an error")
		}
		v := beat(t, a)
		i := slices.IndexFunc(v.Peers, func(p relay.Peer) bool { return p.ID == c.ID() })
		if !v.Peers[i].Gone {
			t.Fatalf("a dead member shows as living: %+v", v.Peers)
		}
		if got := act(t, a, v.Peers[i:i+1], 8); len(got) != 8 {
			t.Errorf("took %v from the dead, want all", got)
		}
	})
}

func TestEvictionNeedsTheBeatSeen(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		a, c := b.join(t), b.join(t)
		act(t, c, nil, 8)
		beat(t, c)
		if got := act(t, a, []relay.Peer{{ID: c.ID(), Beat: 0}}, 8); len(got) != 0 {
			t.Errorf("took %v from a member that has moved since", got)
		}
		if got := act(t, a, []relay.Peer{{ID: c.ID(), Beat: 1}}, 8); len(got) != 8 {
			t.Errorf("took %v from a stale member, want all", got)
		}
		if _, err := c.Beat(t.Context(), relay.Report{}); !errors.Is(err, relay.ErrEvicted) {
			t.Errorf("beat of the evicted: %v", err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		m := newBed(t, url).join(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, m.Wait(ctx, func() {}))
		beat(t, m) // the connection still stands
	})
}

func TestTakesNeverOverlap(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var all []int
		for range 6 {
			m := b.join(t)
			wg.Go(func() {
				lanes, err := m.Act(context.WithoutCancel(t.Context()), nil, 3, 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, lanes...)
			})
		}
		wg.Wait()
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("lanes taken: %v, some twice", all)
		}
	})
}

func TestLanesResize(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		a := b.join(t)
		act(t, a, nil, 8)
		before := beat(t, a)
		if n, err := postgres.SetLanes(t.Context(), b.admin, b.names, 16); err != nil || n != 8 {
			t.Fatalf("set lanes: %d, %v", n, err)
		}
		if v := beat(t, a); v.NextLanes != 16 || len(v.Lanes) != 8 {
			t.Fatalf("after the request: %+v", v)
		}
		must(t, a.Resize(t.Context()))
		if v := beat(t, a); len(v.Lanes) != 8 {
			t.Fatal("resized although lanes were owned")
		}
		must(t, a.Release(t.Context(), owned(before, a.ID())))
		if lanes, err := a.Act(t.Context(), nil, 8, before.Generation+1); err != nil || len(lanes) != 0 {
			t.Errorf("took %v of another generation: %v", lanes, err)
		}
		if got := act(t, a, nil, 8); len(got) != 0 {
			t.Errorf("took %v while another number of lanes is wanted", got)
		}
		must(t, a.Resize(t.Context()))
		v := beat(t, a)
		if len(v.Lanes) != 16 || v.NextLanes != 0 || v.Generation != before.Generation+1 {
			t.Fatalf("after the change: %+v", v)
		}
		for i, l := range v.Lanes {
			if i < 8 && l.Epoch <= before.Lanes[i].Epoch || l.Epoch <= 0 {
				t.Errorf("lane %d restarts its epochs at %d", i, l.Epoch)
			}
		}
	})
}

func TestTwoOutboxesDoNotMeet(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		other := &bed{database: b.database, names: names(t, `"other-outbox"`, "posthaste")}
		up(t, b.admin, other.names, postgres.MigrateOptions{Lanes: 4})
		other.grant(t, false)
		other.store = other.newStore(t)
		a, c := b.join(t), other.join(t)
		if v := beat(t, c); len(v.Peers) != 1 || len(v.Lanes) != 4 {
			t.Errorf("the second outbox sees %+v", v)
		}
		if got := act(t, c, nil, 99); len(got) != 4 {
			t.Errorf("took %v of the second outbox", got)
		}
		if v := beat(t, a); len(owned(v, 0)) != 8 {
			t.Errorf("the first outbox lost lanes to it: %+v", v)
		}
	})
}
