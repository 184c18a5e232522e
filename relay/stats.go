package relay

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Stats is what a relay has done and sees, for metrics and for people.
type Stats struct {
	Published  map[string]int64 // acknowledged events by topic
	Errors     map[string]int64 // failures by class, see ErrorClasses
	Reads      int64            // reads of the outbox table, empty ones too
	Sweeps     int64            // of them those from the beginning of the table
	TakeOvers  int64            // lanes taken from relays that died
	SweepFinds int64            // events that only the sweep found: their marks were lost or taken back
	Lanes      int              // lanes owned
	LanesTotal int              // lanes of the outbox
	Relays     int              // members of the outbox
	Held       int              // topics and keys that wait after a failure of their own
	Oldest     time.Duration    // age of the oldest unpublished event of our lanes, by the database clock; 0 for none
	Ready      bool
	Reason     string // why it is not ready
}

const classDatabase = "database"

// ErrorClasses are the classes that Stats.Errors counts by.
func ErrorClasses() []string {
	return []string{Outage.String(), TopicUnusable.String(), Refused.String(), classDatabase}
}

// ledger collects the Stats. All methods may be called from any goroutine.
type ledger struct {
	mu        sync.Mutex
	published map[string]int64
	errors    map[string]int64
	reads     int64
	sweeps    int64
	sweep     int64
	held      int
	reasons   []Waiting
	oldest    time.Time // created_at of the oldest event that waits, zero for none
	dbClock   time.Time // the database clock at dbClockAt
	dbClockAt time.Time

	database health
	ping     health
	acks     health    // what Kafka acknowledges, by its last answer
	flying   time.Time // since when a chunk is with Kafka, zero for none
}

// health is when a server answered last, and what it answered instead.
type health struct {
	at     time.Time
	err    error // the latest answer, nil for a good one
	failed time.Time
	outage *outage
}

func newLedger(log *slog.Logger) *ledger {
	return &ledger{published: make(map[string]int64), errors: make(map[string]int64),
		database: health{outage: newOutage(log, "PostgreSQL")},
		ping:     health{outage: newOutage(log, "Kafka")},
		acks:     health{outage: newOutage(log, "Sending to Kafka")}}
}

func (l *ledger) count(events []*Event, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range events {
		if errs[i] == nil {
			l.published[e.Topic]++
		} else if class := classOf(errs[i]); class != Unsent {
			l.errors[class.String()]++
		}
	}
}

func (l *ledger) read(sweep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if sweep {
		l.sweeps++
	}
}

func (l *ledger) waiting(oldest time.Time, held int, sweep int, reasons []Waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.oldest, l.held, l.sweep, l.reasons = oldest, held, int64(sweep), reasons
}

// clock takes in what the database clock said at a time of ours.
func (l *ledger) clock(db, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dbClock, l.dbClockAt = db, at
}

// databaseAnswered takes the outcome of a call in.
func (l *ledger) databaseAnswered(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errors[classDatabase]++
	}
	l.database.answered(err)
}

// pinged takes in whether a broker answered at all.
func (l *ledger) pinged(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ping.answered(err)
}

// handedOver and acknowledged take in that a chunk went to Kafka, and what came of it.
func (l *ledger) handedOver(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying = now
}

func (l *ledger) acknowledged(events int, outage error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying = time.Time{}
	if events > 0 || outage != nil {
		l.acks.answered(outage)
	}
}

func (h *health) answered(err error) {
	now := time.Now()
	h.err = err
	if err == nil {
		h.at = now
	} else {
		h.failed = now
	}
	h.outage.met(err, now)
}

// silence is after how long without an answer a server counts as away.
const silence = 10 * time.Second

// Stats returns a snapshot. It asks no server.
func (r *Relay) Stats() Stats {
	now := time.Now()
	l := r.ledger
	l.mu.Lock()
	s := Stats{
		Published:  maps.Clone(l.published),
		Errors:     maps.Clone(l.errors),
		Reads:      l.reads,
		Sweeps:     l.sweeps,
		SweepFinds: l.sweep,
		Held:       l.held,
	}
	if !l.oldest.IsZero() && !l.dbClock.IsZero() {
		s.Oldest = max(0, l.dbClock.Add(now.Sub(l.dbClockAt)).Sub(l.oldest))
	}
	database, ping, acks, flying := l.database, l.ping, l.acks, l.flying
	l.mu.Unlock()

	m := r.member
	m.mu.Lock()
	if database.err == nil && m.viewedAt.After(database.at) {
		database.at = m.viewedAt // a beat that came through is an answer
	}
	s.TakeOvers = int64(m.taken)
	s.Lanes, s.LanesTotal, s.Relays = m.state.lanes.Len(), len(m.view.Lanes), len(m.view.Peers)
	standby := m.state.id != 0 && s.Lanes == 0 && !free(m.view)
	m.mu.Unlock()

	switch lanes := r.cfg.Claim == ClaimLanes; {
	case ping.at.IsZero(): // before Kafka has answered once, there is nothing to ask PostgreSQL for
		s.Reason = reason("Kafka", ping)
	case now.Sub(database.at) > max(silence, 3*r.cfg.Interval):
		s.Reason = reason("PostgreSQL", database)
	case now.Sub(ping.at) > silence:
		s.Reason = reason("Kafka", ping)
	case acks.err != nil && now.Sub(acks.failed) < silence:
		s.Reason = "Kafka acknowledges nothing: " + acks.err.Error()
	case !flying.IsZero() && now.Sub(flying) > silence:
		s.Reason = "Kafka has acknowledged nothing since " + flying.UTC().Format(time.RFC3339)
	case lanes && s.Lanes == 0 && !standby:
		s.Reason = "no lanes yet"
	default:
		s.Ready = true
	}
	return s
}

// report is what the others are told of the Stats.
func (r *Relay) report() Report {
	s := r.Stats()
	told := Report{Held: s.Held, Trouble: s.Reason}
	r.ledger.mu.Lock()
	told.Waiting = r.ledger.reasons
	r.ledger.mu.Unlock()
	for _, n := range s.Published {
		told.Published += n
	}
	return told
}

// free tells whether a lane has no owner.
func free(v View) bool {
	for _, l := range v.Lanes {
		if l.Owner == 0 {
			return true
		}
	}
	return len(v.Lanes) == 0
}

func reason(server string, h health) string {
	switch {
	case h.err != nil:
		return server + " does not answer: " + h.err.Error()
	case h.at.IsZero():
		return server + " has not answered yet"
	}
	return server + " has not answered since " + h.at.UTC().Format(time.RFC3339)
}
