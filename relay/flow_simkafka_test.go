package relay

import (
	"slices"
	"time"
)

// publish sends a chunk and takes its outcomes in: per partition a failure fails everything after it.
func (s *sim) publish(m *simMember) {
	chunk := m.flow.sending
	errs := make([]error, len(chunk))
	failed := map[Scope]bool{}
	for i, e := range chunk {
		partition := scopeOf(e, ScopePartition, simPartition)
		switch {
		case s.topic[e.Topic]:
			errs[i] = &Failure{TopicUnusable, errSim}
		case failed[partition]:
			errs[i] = &Failure{Unsent, errSim}
		case s.sick[partition] && !slices.ContainsFunc(chunk[:i], func(b *Event) bool {
			return scopeOf(b, ScopePartition, simPartition) == partition && s.sent(b.ID)
		}):
			errs[i] = &Failure{Unanswered, errSim}
			continue
		case s.refused[e.Key]:
			errs[i] = &Failure{Refused, errSim}
			s.row(e.ID).skipped = s.row(e.ID).skipped || simClasses.refused(e.class) == Skip
		case s.rnd.IntN(12) == 0:
			errs[i] = errSim
			if s.rnd.IntN(2) == 0 { // the outcome is unknown: it may have arrived
				s.record(e)
				s.faults++
			}
		default:
			s.record(e)
		}
		failed[partition] = failed[partition] || errs[i] != nil
	}
	prefetched := m.flow.queue
	out := m.flow.published(errs, time.Unix(0, 0))
	switch s.broken {
	case failedRowsBehindPrefetch:
		rotate(m.flow, len(m.flow.queue)-len(prefetched))
	case holdLeavesCarriedRows:
		if len(out.held)+len(out.refused) > 0 {
			putBack(m.flow, prefetched)
		}
	case barredPartitionFlows:
		for scope := range m.flow.failing.all {
			if scope.Kind == ScopePartition {
				m.flow.failing.remove(scope)
			}
		}
	}
}

// rotate puts the first n rows behind the others.
func rotate(f *flow, n int) {
	if n > 0 {
		f.queue = append(slices.Clone(f.queue[n:]), f.queue[:n]...)
	}
}

func (s *sim) sent(id int64) bool {
	return slices.ContainsFunc(s.log, func(r simRecord) bool { return r.id == id })
}

// answer lets a partition answer that has not: it took the events, or from some on it did not.
func (s *sim) answer(m *simMember) {
	if len(m.flow.open) == 0 {
		return
	}
	of := func(e *Event) Scope { return scopeOf(e, ScopePartition, simPartition) }
	partition := of(m.flow.open[s.rnd.IntN(len(m.flow.open))])
	var answers []Answer
	failing := false
	for _, e := range m.flow.open {
		if of(e) != partition {
			continue
		}
		failing = failing || s.rnd.IntN(6) == 0
		a := Answer{Event: e}
		if failing {
			a.Err = errSim
		} else {
			s.record(e)
		}
		answers = append(answers, a)
	}
	s.keepFloors(m.flow, func() { m.flow.answered(answers, time.Unix(0, 0)) })
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
	if !s.calm && s.rnd.IntN(15) == 0 { // committed, and the answer lost
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
			s.faults += len(m.flow.sending) + len(m.flow.open) + len(m.flow.acked) + len(m.flow.settling)
		}
		s.owner[lane] = -1
		return
	default:
		return
	}
	before := slices.Clone(m.flow.reach)
	m.flow.setLanes(NewLaneSet(4, m.lane...))
	if s.broken != parkedNotDoubted {
		m.flow.doubtParked()
	}
	if s.broken == floorKeptOverGainedLane {
		m.flow.reach = before
	}
}
