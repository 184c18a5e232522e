package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeStore gives memberships whose beats a test can break.
type fakeStore struct {
	mu     sync.Mutex
	joined int
	beat   func() error // before each beat
	left   int
}

type fakeMembership struct {
	store *fakeStore
	id    int
	lanes map[int]bool
}

func (s *fakeStore) Open(context.Context) (Session, error) {
	return nil, errors.New("no sessions here")
}

func (s *fakeStore) Join(context.Context) (Membership, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined++
	return &fakeMembership{store: s, id: s.joined, lanes: map[int]bool{}}, nil
}

func (s *fakeStore) Bind(context.Context, string) error { return nil }

func (s *fakeStore) breakBeats(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = f
}

func (m *fakeMembership) ID() int { return m.id }

func (m *fakeMembership) Beat(ctx context.Context, _ Report) (View, error) {
	m.store.mu.Lock()
	f := m.store.beat
	m.store.mu.Unlock()
	if f != nil {
		if err := f(); err != nil {
			return View{}, err
		}
	}
	v := View{Lanes: make([]Lane, 4), Peers: []Peer{{ID: m.id}}, Now: time.Now()}
	for l := range m.lanes {
		v.Lanes[l].Owner = m.id
	}
	return v, nil
}

func (m *fakeMembership) Act(_ context.Context, _ []Peer, take int, _ int64) ([]int, error) {
	var lanes []int
	for l := 0; l < 4 && len(lanes) < take; l++ {
		if !m.lanes[l] {
			m.lanes[l] = true
			lanes = append(lanes, l)
		}
	}
	return lanes, nil
}

func (m *fakeMembership) Release(context.Context, []int) error { return nil }
func (m *fakeMembership) Resize(context.Context) error         { return nil }
func (m *fakeMembership) Close()                               {}

func (m *fakeMembership) Leave(context.Context) error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	m.store.left++
	return nil
}

func (m *fakeMembership) Wait(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// startMember runs a member in the test's bubble until the returned function is called.
func startMember(t *testing.T, store *fakeStore, alive func(time.Time) bool) (*member, func()) {
	t.Helper()
	cfg := Config{Logger: slog.New(slog.DiscardHandler)}.WithDefaults()
	m := newMember(store, cfg, newLedger(cfg.Logger))
	m.alive = alive
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.run(ctx) }()
	return m, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("member ended with %v", err)
		}
	}
}

func always(time.Time) bool { return true }

// A relay whose beats do not come through stops sending by itself after half the lease, before anybody can have
// evicted it.
func TestSilentMemberStopsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		m, stop := startMember(t, store, always)
		defer stop()
		synctest.Wait()
		if !m.maySend(time.Now()) || m.current().lanes.Len() != 4 {
			t.Fatal("a new member alone does not own all lanes")
		}
		hang := make(chan struct{})
		store.breakBeats(func() error { <-hang; return nil })
		time.Sleep(m.cfg.BeatInterval) // the bubble's clock: the next beat hangs
		synctest.Wait()
		time.Sleep(m.cfg.Lease/2 - m.cfg.BeatInterval)
		if !m.maySend(time.Now()) {
			t.Error("stopped before half the lease")
		}
		time.Sleep(time.Millisecond)
		if m.maySend(time.Now()) {
			t.Error("sends on after half the lease without a beat")
		}
		store.breakBeats(nil)
		close(hang)
		synctest.Wait()
		time.Sleep(m.cfg.BeatInterval)
		synctest.Wait()
		if !m.maySend(time.Now()) {
			t.Error("does not go on after its beats come through again")
		}
	})
}

func TestEvictedMemberDropsItsLanesAndJoinsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		m, stop := startMember(t, store, always)
		synctest.Wait()
		first := m.current().id
		evicted := true
		store.breakBeats(func() error {
			if evicted {
				evicted = false
				return ErrEvicted
			}
			return nil
		})
		time.Sleep(m.cfg.BeatInterval)
		synctest.Wait()
		if got := m.current(); got.lanes.Len() != 0 {
			t.Errorf("still has %v after its eviction", got.lanes.List())
		}
		time.Sleep(m.cfg.BeatInterval)
		synctest.Wait()
		if got := m.current(); got.id == first || got.lanes.Len() != 4 {
			t.Errorf("after joining anew: %+v", got)
		}
		stop()
		if store.left != 1 {
			t.Errorf("left %d times at the stop, want once", store.left)
		}
	})
}

// A loop that is stuck in the database must not look alive to the others.
func TestStuckLoopDoesNotBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		var mu sync.Mutex
		stuck := false
		m, stop := startMember(t, store, func(time.Time) bool { mu.Lock(); defer mu.Unlock(); return !stuck })
		defer stop()
		synctest.Wait()
		mu.Lock()
		stuck = true
		mu.Unlock()
		beats := 0
		store.breakBeats(func() error { beats++; return nil })
		time.Sleep(10 * m.cfg.BeatInterval)
		synctest.Wait()
		if beats != 0 || m.maySend(time.Now()) {
			t.Errorf("%d beats of a stuck loop, fresh: %v", beats, m.maySend(time.Now()))
		}
	})
}
