package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The simulation drives two flows, the real decision code, over a model of PostgreSQL and Kafka in which every step
// comes in a random order: writers draw ids and commit late or roll back, reads see a snapshot and arrive later, chunks
// fail in part, settles are lost, sessions break, lanes move, a member is evicted with a chunk in flight. It checks
// what the relay promises: nothing lost, nothing out of order, and every duplicate with its reason.
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
	floorSharedByClasses
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
		s.members[i] = &simMember{id: i,
			flow: newFlow(limits{batch: 2, batchMax: 3, memory: 1 << 20}, false, simClasses)}
	}
	for l := range s.owner {
		s.owner[l] = -1
	}
	return s
}

// Some of the topics come when their time has come, and the time of each class comes at random.
var simClasses = classes{"t1", "t3"}

func (s *sim) key() string { return fmt.Sprintf("k%d", s.rnd.IntN(5)) }

func simLane(key string) int { return int(key[1]-'0') % 4 }

// write lets a transaction begin, insert, prepare, commit or roll back. Writers of a key are serialised, as by a row
// lock.
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
	due := 1 + classSet(s.rnd.IntN(int(simClasses.all())))
	req := m.flow.nextRead(m.flow.limits.batch, due, s.rnd.IntN(50) == 0 && s.broken == sound)
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
			slices.ContainsFunc(req.Held, func(h Scope) bool {
				return h.Topic == row.Topic && (h.Kind == ScopeTopic || h.Key == row.Key)
			}) ||
			slices.ContainsFunc(req.Wanted, func(c Choice) bool { return !c.Wants(row.Topic) }) {
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
	for i := range m.flow.reach {
		reach := &m.flow.reach[i]
		switch {
		case s.broken == floorByLastID && len(r.events) > 0 && r.req.classes.has(i):
			reach.floor = max(reach.floor, r.events[len(r.events)-1].ID)
		case s.broken == floorSharedByClasses:
			for _, other := range m.flow.reach {
				reach.floor = max(reach.floor, other.floor)
			}
		}
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
	before := slices.Clone(m.flow.reach)
	m.flow.setLanes(NewLaneSet(4, m.lane...))
	if s.broken == floorKeptOverGainedLane {
		m.flow.reach = before
	}
}
