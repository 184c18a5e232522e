package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The simulation drives two flows, the real decision code, over a model of PostgreSQL and Kafka in which every step
// comes in a random order: writers draw ids and commit late or roll back, reads see a snapshot and arrive later, chunks
// fail in part, settles are lost, sessions break, lanes move, a member is evicted with a chunk in flight. It checks what
// the relay promises: nothing lost, nothing out of order, and every duplicate with its reason.
type sim struct {
	rnd     *rand.Rand
	rows    []*simRow
	seq     int64
	open    []*simTx
	tx      int
	topic   map[string]bool // unusable
	refused map[string]bool // keys whose next event is refused
	members [2]*simMember
	owner   [4]int // lane to member, -1 while free
	log     []simRecord
	broken  mutation
	faults  int
}

// mutation takes one protection out, to see that the simulation would notice.
type mutation int

const (
	sound mutation = iota
	floorByLastID
	floorKeptOverGainedLane
	readOutlivesChange
	floorKeptOverLiftedHold
	settleBeforeAck
	failedRowsBehindPrefetch
	holdLeavesCarriedRows
	horizonWithoutWriters
	preparedForgotten
)

type simRow struct {
	Event
	committed, settled bool
}

type simTx struct {
	id       string
	prepared bool
	key      string
	rows     []*simRow
}

type simRecord struct {
	id  int64
	key string
}

type simMember struct {
	id      int
	flow    *flow
	read    *simRead
	settles []Ref
	lane    []int
}

type simRead struct {
	req    *request
	events []*Event
	more   bool
	look   *Horizon
}

var errSim = errors.New("simulated outage")

func newSim(seed uint64, m mutation) *sim {
	s := &sim{rnd: rand.New(rand.NewPCG(seed, 1)), topic: map[string]bool{}, refused: map[string]bool{}, broken: m}
	for i := range s.members {
		s.members[i] = &simMember{id: i, flow: newFlow(limits{batch: 2, batchMax: 3, memory: 1 << 20}, false)}
	}
	for l := range s.owner {
		s.owner[l] = -1
	}
	return s
}

func (s *sim) key() string { return fmt.Sprintf("k%d", s.rnd.IntN(5)) }

func simLane(key string) int { return int(key[1]-'0') % 4 }

// write lets a transaction begin, insert, prepare, commit or roll back. Writers of a key are serialised, as by a row lock.
func (s *sim) write() {
	if len(s.open) == 0 || len(s.open) < 3 && s.rnd.IntN(2) == 0 {
		key := s.key()
		if slices.ContainsFunc(s.open, func(tx *simTx) bool { return tx.key == key }) {
			return
		}
		s.tx++
		s.open = append(s.open, &simTx{id: fmt.Sprint("tx", s.tx), key: key})
		return
	}
	i := s.rnd.IntN(len(s.open))
	tx := s.open[i]
	switch n := s.rnd.IntN(10); {
	case n < 4 && !tx.prepared && len(tx.rows) < 4:
		s.seq++
		r := &simRow{Event: Event{ID: s.seq, Key: tx.key, Topic: "t" + tx.key[1:], Lane: simLane(tx.key)}}
		tx.rows = append(tx.rows, r)
	case n < 5 && !tx.prepared:
		tx.prepared, tx.id = true, "-1/"+tx.id
	case n < 9:
		for _, r := range tx.rows {
			r.committed = true
			s.rows = append(s.rows, r)
		}
		s.open = slices.Delete(s.open, i, i+1)
	default:
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// look is what the database answers: the sequence, then the writers.
func (s *sim) look() *Horizon {
	h := &Horizon{Last: s.seq}
	for _, tx := range s.open {
		if s.broken == horizonWithoutWriters {
			continue
		}
		h.Writers = append(h.Writers, Writer{ID: tx.id, Prepared: tx.prepared && s.broken != preparedForgotten})
	}
	return h
}

// begin starts a read: its snapshot is now.
func (s *sim) begin(m *simMember) {
	req := m.flow.nextRead(m.flow.limits.batch, s.rnd.IntN(50) == 0 && s.broken == sound)
	if req == nil {
		return
	}
	r := &simRead{req: req}
	if s.rnd.IntN(2) == 0 {
		r.look = s.look()
	}
	visible := slices.Clone(s.rows)
	slices.SortFunc(visible, func(a, b *simRow) int { return int(a.ID - b.ID) })
	for _, row := range visible {
		if row.settled || row.ID <= req.Above || !req.Lanes.Has(row.Lane) || slices.Contains(req.Without, row.ID) ||
			slices.Contains(req.Topics, row.Topic) || slices.Contains(req.Keys, TopicKey{row.Topic, row.Key}) {
			continue
		}
		if len(r.events) == req.Limit {
			break
		}
		e := row.Event
		r.events = append(r.events, &e)
	}
	r.more = len(r.events) == req.Limit
	m.read = r
}

func (s *sim) arrive(m *simMember) {
	r := m.read
	m.read = nil
	if s.rnd.IntN(20) == 0 { // the session breaks
		m.flow.forgetHorizon()
		return
	}
	if s.broken == readOutlivesChange {
		r.req.epoch = m.flow.epoch
	}
	m.flow.arrived(r.req, r.events, r.more)
	if s.broken == floorByLastID && len(r.events) > 0 {
		m.flow.floor = max(m.flow.floor, r.events[len(r.events)-1].ID)
	}
	if r.look != nil {
		m.flow.observe(*r.look)
	}
}

// publish sends a chunk and takes its outcomes in: per partition (topic here) a failure fails everything after it.
func (s *sim) publish(m *simMember) {
	chunk := m.flow.sending
	errs := make([]error, len(chunk))
	failed := map[string]bool{}
	for i, e := range chunk {
		switch {
		case s.topic[e.Topic]:
			errs[i] = &Failure{TopicUnusable, errSim}
		case failed[e.Topic]:
			errs[i] = errSim
		case s.refused[e.Key]:
			errs[i] = &Failure{Refused, errSim}
		case s.rnd.IntN(12) == 0:
			errs[i] = errSim
			if s.rnd.IntN(2) == 0 { // the outcome is unknown: it may have arrived
				s.record(e)
				s.faults++
			}
		default:
			s.record(e)
		}
		failed[e.Topic] = failed[e.Topic] || errs[i] != nil
	}
	prefetched := m.flow.queue
	out := m.flow.published(errs, time.Unix(0, 0))
	switch s.broken {
	case failedRowsBehindPrefetch:
		n := len(m.flow.queue) - len(prefetched)
		if n > 0 {
			m.flow.queue = append(slices.Clone(m.flow.queue[n:]), m.flow.queue[:n]...)
		}
	case holdLeavesCarriedRows:
		if len(out.held) > 0 {
			for _, e := range prefetched {
				if _, known := m.flow.known[e.ID]; !known && m.flow.holds.covering(e) != nil {
					m.flow.known[e.ID] = struct{}{}
					m.flow.bytes += e.Size()
					m.flow.queue = append(m.flow.queue, e)
				}
			}
		}
	}
}

func (s *sim) record(e *Event) { s.log = append(s.log, simRecord{e.ID, e.Key}) }

func (s *sim) settle(m *simMember) {
	refs := m.settles
	m.settles = nil
	for _, ref := range refs {
		for _, r := range s.rows {
			r.settled = r.settled || r.ID == ref.ID
		}
	}
	if s.rnd.IntN(15) == 0 { // committed, and the answer lost
		m.flow.unsettled()
		m.flow.forgetHorizon()
		return
	}
	m.flow.settled()
}

// moveLanes lets a member take a free lane or give one back, or be evicted while it sleeps.
func (s *sim) moveLanes(m *simMember) {
	lane := s.rnd.IntN(4)
	switch owner := s.owner[lane]; {
	case owner == -1:
		s.owner[lane] = m.id
		m.lane = append(m.lane, lane)
	case owner == m.id && s.rnd.IntN(2) == 0:
		m.lane = slices.DeleteFunc(m.lane, func(l int) bool { return l == lane })
		m.flow.setLanes(NewLaneSet(4, m.lane...))
		if m.flow.carries([]int{lane}) { // evicted: the lane is free although a chunk is on its way
			s.faults += len(m.flow.sending) + len(m.flow.acked) + len(m.flow.settling)
		}
		s.owner[lane] = -1
		return
	default:
		return
	}
	floor := m.flow.floor
	m.flow.setLanes(NewLaneSet(4, m.lane...))
	if s.broken == floorKeptOverGainedLane {
		m.flow.floor = floor
	}
}

func (s *sim) step() {
	m := s.members[s.rnd.IntN(2)]
	switch s.rnd.IntN(12) {
	case 0, 1, 2:
		s.write()
	case 3:
		s.moveLanes(m)
	case 4, 5:
		if m.read == nil {
			s.begin(m)
		}
	case 6, 7:
		if m.read != nil {
			s.arrive(m)
		}
	case 8:
		if len(m.flow.sending) == 0 && len(m.flow.queue) > 0 {
			m.flow.nextChunk()
			if s.broken == settleBeforeAck {
				m.flow.acked = append(m.flow.acked, m.flow.sending...)
			}
		}
	case 9:
		if len(m.flow.sending) > 0 {
			s.publish(m)
		}
	case 10:
		if m.settles == nil && len(m.flow.acked) > 0 {
			m.settles = m.flow.nextSettle()
		} else if m.settles != nil {
			s.settle(m)
		}
	case 11:
		switch s.rnd.IntN(4) {
		case 0:
			s.topic[fmt.Sprint("t", s.rnd.IntN(5))] = s.rnd.IntN(2) == 0
		case 1:
			s.refused[s.key()] = s.rnd.IntN(2) == 0
		default:
			s.lift(m)
		}
	}
}

func (s *sim) lift(m *simMember) {
	floor := m.flow.floor
	m.flow.lift(time.Unix(1<<40, 0))
	if s.broken == floorKeptOverLiftedHold {
		m.flow.floor = floor
	}
}

// quiesce ends the faults and lets everything flow; it tells whether everything was sent.
func (s *sim) quiesce() error {
	for _, tx := range s.open {
		for _, r := range tx.rows {
			r.committed = true
			s.rows = append(s.rows, r)
		}
	}
	s.open = nil
	clear(s.topic)
	clear(s.refused)
	for l := range s.owner {
		if s.owner[l] == -1 {
			m := s.members[l%2]
			s.owner[l] = m.id
			m.lane = append(m.lane, l)
			m.flow.setLanes(NewLaneSet(4, m.lane...))
		}
	}
	for range 400 {
		for _, m := range s.members {
			s.lift(m)
			if m.read == nil {
				s.begin(m)
			}
			if m.read != nil {
				s.arrive(m)
			}
			if len(m.flow.sending) == 0 && len(m.flow.queue) > 0 {
				m.flow.nextChunk()
			}
			if len(m.flow.sending) > 0 {
				s.publish(m)
			}
			if m.settles == nil && len(m.flow.acked) > 0 {
				m.settles = m.flow.nextSettle()
			}
			if m.settles != nil {
				s.settle(m)
			}
		}
	}
	return s.verdict()
}

func (s *sim) verdict() error {
	first := map[int64]bool{}
	last := map[string]int64{}
	for _, r := range s.log {
		if first[r.id] {
			continue
		}
		first[r.id] = true
		if r.id < last[r.key] {
			return fmt.Errorf("reordered: %d of %s came after %d", r.id, r.key, last[r.key])
		}
		last[r.key] = r.id
	}
	for _, r := range s.rows {
		if !first[r.ID] {
			return fmt.Errorf("lost: %d of %s (settled: %v)", r.ID, r.Key, r.settled)
		}
		if !r.settled {
			return fmt.Errorf("never settled: %d of %s", r.ID, r.Key)
		}
		delete(first, r.ID)
	}
	if len(first) > 0 {
		return fmt.Errorf("phantoms: %v", first)
	}
	return nil
}

func runSim(seed uint64, m mutation) error {
	s := newSim(seed, m)
	for range 600 {
		s.step()
	}
	return s.quiesce()
}

func TestFlowKeepsItsPromises(t *testing.T) {
	for seed := range uint64(300) {
		if err := runSim(seed, sound); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestSimulationNotices takes each protection out and expects the simulation to see it.
func TestSimulationNotices(t *testing.T) {
	for name, m := range map[string]mutation{
		"floor by last id":              floorByLastID,
		"floor kept over a gained lane": floorKeptOverGainedLane,
		"read outlives a change":        readOutlivesChange,
		"floor kept over a lifted hold": floorKeptOverLiftedHold,
		"settle before acknowledgement": settleBeforeAck,
		"failed rows behind a prefetch": failedRowsBehindPrefetch,
		"hold leaves carried rows":      holdLeavesCarriedRows,
		"horizon without writers":       horizonWithoutWriters,
		"prepared writers forgotten":    preparedForgotten,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3000) {
				if err := runSim(seed, m); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("3,000 runs and nothing noticed")
		})
	}
}
