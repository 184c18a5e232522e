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
	sick    map[Scope]bool  // partitions that do not answer
	parked  map[int64]*simParked
	pauses  []Pause
	members [2]*simMember
	owner   [4]int // lane to member, -1 while free
	log     []simRecord
	broken  mutation
	faults  int
	calm    bool  // sessions last: nothing that was forgotten is found by starting anew
	flaw    error // the first thing that may never be
}

func (s *sim) wrong(what string, id int64) {
	if s.flaw == nil {
		s.flaw = fmt.Errorf("%s: %d", what, id)
	}
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
	releaseWithoutCatchUp
	catchUpForgetsOtherHolds
	barredPartitionFlows
	pauseLeavesCarriedRows
	parkedNotDoubted
)

// simParked is a row of the side table.
type simParked struct {
	Parking
	request string
}

type simRow struct {
	Event
	committed, settled bool
	discarded, skipped bool // by an operator; by policy, so that its order is given up
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

// simRead is an exchange without its settle.
type simRead struct {
	req      *request // nil: it reads nothing
	events   []*Event
	more     bool
	look     *Horizon
	parks    bool
	parked   []int64
	released []Released
}

var errSim = errors.New("simulated outage")

func newSim(seed uint64, m mutation) *sim {
	s := &sim{rnd: rand.New(rand.NewPCG(seed, 1)), topic: map[string]bool{}, refused: map[string]bool{},
		sick: map[Scope]bool{}, parked: map[int64]*simParked{}, broken: m}
	for i := range s.members {
		s.members[i] = &simMember{id: i,
			flow: newFlow(limits{batch: 2, batchMax: 3, memory: 1 << 20}, false, simClasses, simPartition)}
	}
	for l := range s.owner {
		s.owner[l] = -1
	}
	return s
}

// Some of the topics come when their time has come, and the time of each class comes at random.
// What is refused of one is skipped, of another its aggregate waits.
var simClasses = classes{rules: []TopicRule{{Match: "t1", OnRefused: Skip}, {Match: "t2", OnRefused: HoldAggregate}}}

func simPartition(_, key string) int32 { return int32(key[1]-'0') % 2 }

// simTopic: a key has one topic, and a topic has keys of several partitions and lanes.
func simTopic(key string) string { return fmt.Sprint("t", (key[1]-'0')%3) }

func (s *sim) key() string { return fmt.Sprintf("k%d", s.rnd.IntN(6)) }

func simLane(key string) int { return int(key[1]-'0') % 4 }

// simFree is a key whose writers nobody serialises: its order is anybody's guess.
const simFree = "k5"

// write lets a transaction begin, insert, prepare, commit or roll back. Writers of the other keys are serialised, as by
// a row lock.
func (s *sim) write() {
	if len(s.open) == 0 || len(s.open) < 3 && s.rnd.IntN(2) == 0 {
		key := s.key()
		if key != simFree && slices.ContainsFunc(s.open, func(tx *simTx) bool { return tx.key == key }) {
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
		r := &simRow{Event: Event{ID: s.seq, Key: tx.key, Topic: simTopic(tx.key), Lane: simLane(tx.key),
			AggregateType: "a", AggregateID: tx.key}}
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

// begin starts an exchange: what it changes is changed, and its snapshot is taken, now.
func (s *sim) begin(m *simMember) {
	r := &simRead{}
	if len(m.flow.refused) > 0 {
		r.parks, r.parked = true, s.park(m)
	}
	if m.flow.catching.empty() && s.rnd.IntN(3) == 0 {
		r.released = s.serve(m)
	}
	if r.req = s.nextRead(m); r.req != nil {
		if s.rnd.IntN(2) == 0 {
			r.look = s.look()
		}
		s.read(r)
	}
	m.read = r
}

func (s *sim) nextRead(m *simMember) *request {
	if s.rnd.IntN(2) == 0 {
		if r := m.flow.nextCatchUp(m.flow.limits.batch); r != nil {
			return r
		}
	}
	due := 1 + classSet(s.rnd.IntN(int(simClasses.all())))
	return m.flow.nextRead(m.flow.limits.batch, due, s.rnd.IntN(50) == 0 && s.broken == sound)
}

// read finds the rows that the statement would.
func (s *sim) read(r *simRead) {
	visible := slices.Clone(s.rows)
	slices.SortFunc(visible, func(a, b *simRow) int { return int(a.ID - b.ID) })
	for _, row := range visible {
		if row.settled || !matches(s.parked, r.req, &row.Event) {
			continue
		}
		if len(r.events) == r.req.Limit {
			break
		}
		e := row.Event
		r.events = append(r.events, &e)
		if s.parked[e.ID] != nil {
			s.wrong("read though it is parked", e.ID)
		}
	}
	r.more = len(r.events) == r.req.Limit
}

// matches tells whether the statement of a read would find an unpublished row, by what stands in the side table.
func matches(parked map[int64]*simParked, q *request, e *Event) bool {
	in := func(list []Scope) bool {
		return slices.ContainsFunc(list, func(h Scope) bool {
			if h.Kind == ScopePartition {
				return h.Topic == e.Topic
			}
			return scopeOf(e, h.Kind, simPartition) == h
		})
	}
	return e.ID > q.Above && e.ID <= q.UpTo && q.Lanes.Has(e.Lane) && !slices.Contains(q.Without, e.ID) &&
		!in(q.Held) && (len(q.Only) == 0 || in(q.Only)) && !waitsParked(parked, q, e) &&
		!slices.ContainsFunc(q.Wanted, func(c Choice) bool { return !c.Wants(e.Topic) })
}

// waitsParked tells whether the event is parked, or waits with one that is, as far as the read asks.
func waitsParked(parked map[int64]*simParked, q *request, e *Event) bool {
	for id, p := range parked {
		if !slices.Contains(q.Parked, p.Scope) {
			continue
		}
		switch p.Scope {
		case ScopeEvent:
			if e.ID == id && e.ID <= q.ParkedUpTo && e.EventID == p.EventID {
				return true
			}
		case ScopeKey:
			if e.Topic == p.Topic && e.Key == p.Key && id <= e.ID {
				return true
			}
		case ScopeAggregate:
			if e.AggregateID == p.AggregateID && id <= e.ID {
				return true
			}
		}
	}
	return false
}

// park is the statement that does so: whoever does not own the lane may not, and a published event can't be.
func (s *sim) park(m *simMember) (ids []int64) {
	for _, p := range m.flow.nextPark() {
		i := slices.IndexFunc(s.rows, func(r *simRow) bool { return r.ID == p.ID })
		if s.owner[p.Lane] != m.id || s.rows[i].settled {
			continue
		}
		s.parked[p.ID] = &simParked{Parking: p}
		ids = append(ids, p.ID)
	}
	return ids
}

// serve is the statement that does what operators want, in the lanes of a member.
func (s *sim) serve(m *simMember) (released []Released) {
	for id, p := range s.parked {
		if p.request == "" || s.owner[p.Lane] != m.id {
			continue
		}
		r := Released{ID: id, Attempts: p.Attempts, Gone: p.request == "discard"}
		e := &Event{ID: id, Topic: p.Topic, Key: p.Key, AggregateType: p.AggregateType, AggregateID: p.AggregateID}
		r.Scope = scopeOf(e, p.Scope, simPartition)
		for _, row := range s.rows {
			if row.ID == id && r.Gone && !row.settled {
				row.settled, row.discarded = true, true
			}
		}
		released = append(released, r)
		delete(s.parked, id)
	}
	return released
}

// operate lets an operator have a word.
func (s *sim) operate() {
	for _, p := range s.parked {
		switch s.rnd.IntN(8) {
		case 0, 1:
			p.request = "retry"
		case 2:
			p.request = "discard"
		}
	}
	key := s.key()
	topic := Scope{Kind: ScopeTopic, Topic: simTopic(key)}
	words := []Scope{{Kind: ScopeAll}, topic, topic, topic, topic, {Kind: ScopeKey, Topic: simTopic(key), Key: key},
		{Kind: ScopeKey, Topic: simTopic(key), Key: key}, {Kind: ScopeKeyOfAll, Key: key}}
	if n := len(s.pauses); n > 0 && s.rnd.IntN(3) > 0 {
		i := s.rnd.IntN(n)
		s.pauses = slices.Delete(s.pauses, i, i+1)
	} else if n < 3 {
		s.pauses = append(s.pauses, Pause{ID: s.rnd.Int(), Scope: words[s.rnd.IntN(len(words))]})
	}
}

// beat brings a member what stands in the side tables.
func (s *sim) beat(m *simMember) {
	f := m.flow
	if m.read == nil || !m.read.parks { // another beat than one that may not know of what is being parked
		f.parked, f.parkedUpTo = nil, -1<<63
		for id, p := range s.parked {
			if !slices.Contains(f.parked, p.Scope) {
				f.parked = append(f.parked, p.Scope)
			}
			if p.Scope == ScopeEvent {
				f.parkedUpTo = max(f.parkedUpTo, id)
			}
		}
	}
	carried := slices.Clone(f.queue)
	var begun []*hold
	s.keepFloors(f, func() { begun, _ = f.pause(s.pauses, time.Unix(0, 0)) })
	if s.broken == pauseLeavesCarriedRows && len(begun) > 0 {
		putBack(f, carried)
	}
}

// putBack carries on with rows that had to leave.
func putBack(f *flow, carried []*Event) {
	for _, e := range carried {
		if _, known := f.known[e.ID]; !known && f.standing(e) != nil {
			f.known[e.ID] = struct{}{}
			f.bytes += e.Size()
			f.queue = append(f.queue, e)
		}
	}
}

func (s *sim) arrive(m *simMember) {
	r, f := m.read, m.flow
	m.read = nil
	if !s.calm && s.rnd.IntN(20) == 0 { // the session breaks
		f.parkingFailed()
		f.forgetHorizon()
		return
	}
	if r.parks {
		f.wereParked(r.parked)
	}
	s.release(f, r)
	if r.req == nil {
		return
	}
	if r.look != nil {
		f.observe(*r.look)
		r.req.final = max(r.req.final, f.final())
	}
	if s.broken == readOutlivesChange {
		r.req.epoch, r.req.catches = f.epoch, f.catches
	}
	f.arrived(r.req, r.events, r.more)
	for i := range f.reach {
		reach := &f.reach[i]
		switch {
		case s.broken == floorByLastID && len(r.events) > 0 && r.req.classes.has(i):
			reach.floor = max(reach.floor, r.events[len(r.events)-1].ID)
		case s.broken == floorSharedByClasses:
			for _, other := range f.reach {
				reach.floor = max(reach.floor, other.floor)
			}
		}
	}
}

func (s *sim) release(f *flow, r *simRead) {
	s.keepFloors(f, func() { f.release(r.released) })
	if s.broken == releaseWithoutCatchUp {
		dropCatching(f)
	}
}

// dropCatching lets the ordinary reads find what had waited.
func dropCatching(f *flow) {
	for _, h := range f.catching.all {
		for i := range f.reach {
			f.reach[i].floor = min(f.reach[i].floor, h.floor)
		}
		f.catching.drop(h)
	}
}

// keepFloors makes other holds forget, where that is the mutation, what a hold that ends had kept of their events.
func (s *sim) keepFloors(f *flow, do func()) {
	floors := map[*hold]int64{}
	for _, hs := range []*holds{&f.failing, &f.paused} {
		for _, h := range hs.all {
			floors[h] = h.floor
		}
	}
	do()
	if s.broken == catchUpForgetsOtherHolds {
		for h, floor := range floors {
			h.floor = max(h.floor, floor)
		}
	}
}
