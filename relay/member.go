package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// ErrEvicted is what a Membership answers when the other members have given it up.
var ErrEvicted = errors.New("this relay was silent for longer than the lease and its lanes were taken by others")

// leaveTimeout bounds the goodbye to the other members; a member that can't say it is found gone by its lock.
const leaveTimeout = 2 * time.Second

// member keeps this process among the relays of the outbox: it joins, beats, takes and gives up lanes. It tells the
// loop which lanes to read, and learns from the loop when lanes that must leave are drained.
//
// Two facts stop a relay that the others have given up. Its beat finds no row, or its connection breaks: then it
// has no lanes at once and joins anew under a new id. And when no beat succeeded for half the lease it may not hand
// over another chunk (maySend), which it finds out from its own monotonic clock, before anyone can have evicted it.
// (That clock stands still while a virtual machine is paused: after such a pause a member may send until its next
// beat.)
type member struct {
	store  Store
	cfg    Config
	log    *slog.Logger
	ledger *ledger
	alive  func(now time.Time) bool // the loop makes progress
	report func() Report            // what the beat tells; never called under mu

	changed chan struct{} // tells the loop that state is new
	woken   chan struct{} // tells the loop that a writer has committed

	mu       sync.Mutex
	state    tenure
	lastBeat time.Time // when the latest successful beat was begun
	view     View
	viewedAt time.Time
	taken    int // lanes taken from the dead
}

// tenure is what the loop may work on.
type tenure struct {
	id         int
	generation int64
	lanes      LaneSet
	wanted     Choice // the topics of the group
	leaving    []int
	drained    chan struct{} // the loop closes it when nothing of leaving is in flight any more; nil when none leaves
	since      time.Time     // when leaving began
}

func newMember(store Store, cfg Config, ledger *ledger) *member {
	return &member{store: store, cfg: cfg, log: cfg.Logger, ledger: ledger, changed: make(chan struct{}, 1),
		woken:  make(chan struct{}, 1),
		alive:  func(time.Time) bool { return true },
		report: func() Report { return Report{} }}
}

// run keeps the membership up until the context ends; then it leaves. It returns early only with a *Permanent error.
func (m *member) run(ctx context.Context) error {
	pause := newBackoff(200*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		err := m.serve(ctx, pause.reset)
		m.announce(tenure{})
		switch {
		case ctx.Err() != nil:
			return nil
		case permanent(err):
			return err
		case errors.Is(err, ErrEvicted):
			m.log.Warn("evicted by the other relays, joining again", "reason", err)
		default:
			m.ledger.databaseAnswered(err)
		}
		pause.wait(ctx)
	}
	return nil
}

// serve is one membership, from join to its end.
func (m *member) serve(ctx context.Context, joined func()) error {
	jctx, cancel := context.WithTimeout(ctx, m.cfg.Lease)
	ms, err := m.store.Join(jctx)
	cancel()
	if err != nil {
		return err
	}
	defer ms.Close()
	joined()
	m.log.Info("joined the relays of the outbox", "member", ms.ID())
	w := make(witness)
	for {
		next := time.Now().Add(m.cfg.BeatInterval)
		if m.alive(time.Now()) {
			if err := m.beat(ctx, ms, w); err != nil {
				return err
			}
		}
		if err := m.pauseUntil(ctx, ms, next); err != nil {
			return err
		}
		if ctx.Err() != nil {
			lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
			defer cancel()
			if err := ms.Leave(lctx); err != nil {
				m.log.Warn("could not leave the other relays; they will find this one gone", "reason", err)
				return err
			}
			m.log.Info("left the relays of the outbox", "member", ms.ID())
			return nil
		}
	}
}

// beat shows life, looks at the others and acts on what it sees.
func (m *member) beat(ctx context.Context, ms Membership, w witness) error {
	begun := time.Now()
	bctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Lease/2)
	defer cancel()
	v, err := ms.Beat(bctx, m.report())
	if err != nil {
		return err
	}
	m.saw(v, begun)
	dead := w.look(v, ms.ID(), begun, m.cfg.Lease)
	s := divide(v, ms.ID(), dead)
	if s.resize {
		// Lanes of the dead are free only once they are evicted.
		if _, err := ms.Act(bctx, dead, 0, v.Generation); err != nil {
			return err
		}
		return ms.Resize(bctx) // the next beat sees the new lanes
	}
	if ctx.Err() != nil {
		s.take = 0 // on the way out: what is taken now would pause for nothing
	}
	if len(dead) > 0 || s.take > 0 {
		lanes, err := ms.Act(bctx, dead, s.take, v.Generation)
		if err != nil {
			return err
		}
		s.own = append(s.own, lanes...)
		m.tookOver(v, dead, lanes)
	}
	slices.Sort(s.own)
	m.announceShare(ms.ID(), v, s)
	return nil
}

// pauseUntil waits for the next beat. Lanes that leave are released as soon as the loop has drained them, and after the
// drain timeout all the same: what is in flight then may be sent twice.
func (m *member) pauseUntil(ctx context.Context, ms Membership, next time.Time) error {
	wctx, cancel := context.WithDeadline(ctx, next)
	defer cancel()
	t := m.current()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		select {
		case <-t.drained: // never, when it is nil
			cancel()
		case <-wctx.Done():
		}
	}()
	err := ms.Wait(wctx, func() { signal(m.woken) })
	cancel()
	<-waited
	if err != nil || ctx.Err() != nil || t.drained == nil {
		return err
	}
	select {
	case <-t.drained:
	default:
		if time.Since(t.since) < m.cfg.DrainTimeout {
			return nil
		}
		m.log.Warn("lanes leave although events of theirs have no answer from Kafka yet; these may be sent twice",
			"lanes", len(t.leaving), "drain_timeout", m.cfg.DrainTimeout)
	}
	rctx, cancelRelease := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Lease/2)
	defer cancelRelease()
	return ms.Release(rctx, t.leaving)
}

// current returns what the loop may work on.
func (m *member) current() tenure {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// maySend tells whether this member has lanes and can't have been evicted yet.
func (m *member) maySend(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.lanes.Len() > 0 && now.Sub(m.lastBeat) <= m.cfg.Lease/2
}

func (m *member) saw(v View, begun time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Pooled && !m.view.Pooled {
		m.log.Warn("a transaction pooler stands before PostgreSQL: the end of another relay shows only when its " +
			"lease runs out; point DATABASE_URL at the server itself to take over at once")
	}
	if begun.Sub(m.lastBeat) > m.cfg.Lease/2 {
		m.notify() // the loop may send again
	}
	m.view, m.viewedAt, m.lastBeat = v, begun, begun
}

// latest returns the view of the latest beat, and when that beat was begun.
func (m *member) latest() (View, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view, m.viewedAt
}

func (m *member) announceShare(id int, v View, s share) {
	m.mu.Lock()
	lanes := NewLaneSet(len(v.Lanes), s.own...)
	same := m.state.id == id && m.state.generation == v.Generation && slices.Equal(m.state.lanes.bits, lanes.bits) &&
		slices.Equal(m.state.leaving, s.leave)
	m.mu.Unlock()
	if same {
		return
	}
	m.log.Info("lanes changed", "member", id, "owned", len(s.own), "leaving", len(s.leave), "of", len(v.Lanes),
		"relays", len(v.Peers))
	t := tenure{id: id, generation: v.Generation, lanes: lanes, wanted: v.Wanted, leaving: s.leave}
	if len(s.leave) > 0 {
		t.drained, t.since = make(chan struct{}), time.Now()
	}
	m.announce(t)
}

func (m *member) announce(t tenure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = t
	m.notify()
}

func (m *member) notify() { signal(m.changed) }

// signal leaves a word in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (m *member) tookOver(v View, dead []Peer, lanes []int) {
	owners := make(map[int]bool, len(dead))
	for _, p := range dead {
		owners[p.ID] = true
		m.log.Warn("another relay is gone", "gone", p.ID, "lock_free", p.Gone)
	}
	n := 0
	for _, l := range lanes {
		if l < len(v.Lanes) && owners[v.Lanes[l].Owner] {
			n++
		}
	}
	m.mu.Lock()
	m.taken += n
	m.mu.Unlock()
}
