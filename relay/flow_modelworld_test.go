package relay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// world is one state of a small world: a table of a few events, each written by a transaction of its own, the side
// table of parked events, Kafka, and two members, whose decisions are those of two real flows. What can happen next is
// told by steps; a step never changes the world that it begins in.
//
// To keep the states few, a member acts as its loop does: what is queued is handed over at once when no chunk is on its
// way, and what is acknowledged or refused goes into an exchange at once when none is. Reads, beats and operators come
// at any time. Left out are steps that could change nothing: reads that find and teach nothing, and beats that tell
// nothing. Except where the world is late, an exchange is made as it is asked, and the outcomes of a chunk are known as
// it arrives; their answers come late everywhere. A member that was given up hands nothing over until it knows.
type world struct {
	cfg     *modelConfig
	broken  mutation
	rows    [modelRows]modelRow
	seq     int64
	cut     int8 // how often the table was truncated
	owner   [4]int8
	parked  map[int64]*simParked // never changed in place
	paused  bool                 // an operator's pause stands
	members [2]*modelMember
	left    budget
	calm    bool // no faults any more
	flaw    error
}

const modelRows = 4

// modelConfig says how large a world is.
type modelConfig struct {
	name    string
	keys    []string // of the events; writers of a key come one by one
	written int      // how many of them the table has to begin with
	classes classes
	dues    []classSet // what reads may be due
	owners  [4]int8    // of the lanes, -1 while free
	strict  bool
	late    bool // exchanges and chunks may reach the servers late
	pause   Scope
	left    budget
}

// budget is how often each fault may happen, and all of them together.
type budget [faultKinds + 1]int8

type faultKind int

const (
	rollback   faultKind = iota
	outages              // of an event: not sent, or sent and its answer lost
	refusing             // of a record alone
	unusable             // a topic
	silences             // a partition does not answer
	sessionEnd           // an exchange was made or not, nobody knows
	eviction             // a member is given up, or gives up a lane, with events in flight
	move                 // a lane is drained and given up
	word                 // an operator retries or discards
	pausing
	truncation
	faultKinds
)

// may tells whether a fault of the kind may happen.
func (w *world) may(kind faultKind) bool {
	return !w.calm && w.left[kind] > 0 && w.left[faultKinds] > 0
}

func (w *world) spend(kind faultKind) {
	w.left[kind]--
	w.left[faultKinds]--
}

// phase is how far the writer of a row is.
type phase int8

const (
	unwritten phase = iota
	drawn           // its id; not committed
	committed
	absent // rolled back
)

// modelRow is an event: its row and its copies in Kafka.
type modelRow struct {
	phase         phase
	id            int64
	cut           int8 // after so many truncations
	settled       bool
	gone          bool // discarded by an operator, or truncated
	skipped       bool // its order was given up by policy
	copied, acked bool
	spare         int8 // how many more copies of it would have a reason
}

// modelMember is a flow with what its loop has on its way.
type modelMember struct {
	flow     *flow
	exchange *modelExchange
	landed   bool
	errs     []error // of the chunk that has landed
	zombie   bool    // given up by the others, and does not know it
	leaving  [4]bool // lanes that are not read any more and not yet released
	requests bool    // a beat has told of operators' words
	resettle bool
}

// modelExchange is an exchange as it was asked and, once it is done, what came of it. It is never changed in place.
type modelExchange struct {
	settle   []Ref
	park     []Parking
	requests bool
	ghosts   bool
	req      *request
	looks    bool
	stale    bool // asked under a member's id that was evicted
	done     bool
	settled  int
	parked   []int64
	released []Released
	events   []*Event
	more     bool
	look     *Horizon
}

func newWorld(cfg *modelConfig, broken mutation) *world {
	w := &world{cfg: cfg, broken: broken, owner: cfg.owners, left: cfg.left, parked: map[int64]*simParked{}}
	for i := range cfg.written {
		w.seq++
		w.rows[i] = modelRow{phase: committed, id: w.seq}
	}
	for i := range w.members {
		f := newFlow(limits{batch: 2, batchMax: 2, memory: 1 << 20}, cfg.strict, cfg.classes, simPartition)
		w.members[i] = &modelMember{flow: f}
		w.setLanes(i)
	}
	return w
}

// fork returns a copy of the world in which the row states and one member may be changed.
func (w *world) fork(m int) (*world, *modelMember) {
	n := *w
	c := *w.members[m]
	c.flow = cloneFlow(c.flow)
	n.members[m] = &c
	return &n, &c
}

func (w *world) wrong(what string, row int) {
	if w.flaw == nil {
		w.flaw = fmt.Errorf("%s: event %d of %s", what, row, w.cfg.keys[row])
	}
}

// token names an event whatever id its row has.
func token(row int) uuid.UUID { return uuid.UUID{byte(row + 1)} }

func rowOf(id uuid.UUID) int { return int(id[0]) - 1 }

func (w *world) event(row int) *Event {
	key := w.cfg.keys[row]
	return &Event{ID: w.rows[row].id, EventID: token(row), Topic: simTopic(key), Key: key, Lane: simLane(key),
		AggregateType: "a", AggregateID: key}
}

// unpublished tells whether the table has the row, and it is to be published still.
func (w *world) unpublished(row int) bool {
	r := &w.rows[row]
	return r.phase == committed && !r.settled && !r.gone
}

// lanes of a member, less those that leave.
func (w *world) setLanes(m int) {
	var own []int
	for l, owner := range w.owner {
		if int(owner) == m && !w.members[m].leaving[l] {
			own = append(own, l)
		}
	}
	f := w.members[m].flow
	before := slices.Clone(f.reach)
	if len(own) > f.lanes.Len() && w.broken != parkedNotDoubted {
		f.doubtParked()
	}
	f.setLanes(NewLaneSet(4, own...))
	if w.broken == floorKeptOverGainedLane {
		f.reach = before
	}
}

// serialised tells whether the writer of an event may begin: the one before it of its key has ended.
func (w *world) serialised(row int) bool {
	for i := range row {
		if w.cfg.keys[i] == w.cfg.keys[row] && w.rows[i].phase < committed {
			return false
		}
	}
	return true
}

// lookAt is a look at the sequence and the writers.
func (w *world) lookAt() *Horizon {
	h := &Horizon{Last: w.seq}
	for i := range w.cfg.keys {
		if w.rows[i].phase == drawn && w.broken != horizonWithoutWriters {
			h.Writers = append(h.Writers, Writer{ID: string(rune('0' + i))})
		}
	}
	return h
}

var (
	failedUnsent   = &Failure{Unsent, errSim}
	failedRefused  = &Failure{Refused, errSim}
	failedTopic    = &Failure{TopicUnusable, errSim}
	failedUnknown  = &Failure{Outage, errSim}
	failedNoAnswer = &Failure{Unanswered, errSim}
	errNotCalm     = errors.New("it never comes to rest")
	modelNow       = time.Unix(0, 0)
	modelLater     = time.Unix(60, 0) // every hold of a topic is due
)
