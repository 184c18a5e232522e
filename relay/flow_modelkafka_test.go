package relay

import (
	"math"
	"slices"
)

// kafkaSteps are what becomes of a chunk, and of what was left unanswered.
func (w *world) kafkaSteps(m int, try tryFunc) {
	mm := w.members[m]
	if len(mm.flow.sending) > 0 && !mm.landed {
		w.landings(m, try)
	}
	if mm.landed {
		try("outcomes of", len(mm.errs), func(n *world, mm *modelMember) { n.outcomes(mm) })
	}
	partition := func(e *Event) Scope { return scopeOf(e, ScopePartition, simPartition) }
	for i, e := range mm.flow.open {
		if slices.ContainsFunc(mm.flow.open[:i], func(o *Event) bool { return partition(o) == partition(e) }) {
			continue
		}
		var of []*Event
		for _, o := range mm.flow.open {
			if partition(o) == partition(e) {
				of = append(of, o)
			}
		}
		try("all answered, from", rowOf(e.EventID), func(n *world, mm *modelMember) {
			n.answer(mm, of, len(of), false)
		})
		for j := range of {
			if w.may(outages) {
				try("answered, unknown from", rowOf(of[j].EventID), func(n *world, mm *modelMember) {
					n.spend(outages)
					n.answer(mm, of, j, false)
				})
				try("answered, arrived but failed from", rowOf(of[j].EventID), func(n *world, mm *modelMember) {
					n.spend(outages)
					n.answer(mm, of, j, true)
				})
			}
		}
	}
}

// answer lets the first n of the events of a partition that had no answer be acknowledged, and the others fail.
func (w *world) answer(mm *modelMember, of []*Event, n int, arrived bool) {
	var answers []Answer
	for i, e := range of {
		a := Answer{Event: e}
		switch {
		case i < n:
			w.acknowledge(e)
		case arrived && i == n:
			w.arriveUnknown(e)
			a.Err = failedUnknown
		default:
			a.Err = failedUnknown
		}
		answers = append(answers, a)
	}
	mm.flow.answered(answers, modelNow)
}

func (w *world) acknowledge(e *Event) {
	w.record(e)
	w.rows[rowOf(e.EventID)].acked = true
}

// arriveUnknown lets an event arrive of which the member will not know so: another copy has its reason.
func (w *world) arriveUnknown(e *Event) {
	w.record(e)
	w.rows[rowOf(e.EventID)].spare++
}

// landings are the outcomes that a chunk may have: of each kind of failure, at each of its events.
func (w *world) landings(m int, try tryFunc) {
	chunk := w.members[m].flow.sending
	land := func(what string, i int, kind faultKind, of func(n *world, j int, e *Event) error) {
		if kind != faultKinds && !w.may(kind) {
			return
		}
		try(what, i, func(n *world, mm *modelMember) {
			if kind != faultKinds {
				n.spend(kind)
			}
			n.land(mm, of)
			if !n.cfg.late || n.calm {
				n.outcomes(mm)
			}
		})
	}
	land("the chunk arrives", len(chunk), faultKinds, func(*world, int, *Event) error { return nil })
	for i, e := range chunk {
		row := rowOf(e.EventID)
		at := func(err error, do func(n *world, e *Event)) func(n *world, j int, e *Event) error {
			return func(n *world, j int, e *Event) error {
				if j != i {
					return nil
				}
				do(n, e)
				return err
			}
		}
		land("outage at", row, outages, at(failedUnknown, func(*world, *Event) {}))
		land("arrives and its answer is lost:", row, outages, at(failedUnknown, (*world).arriveUnknown))
		land("refused alone:", row, refusing, at(failedRefused, func(n *world, e *Event) {
			if r := &n.rows[row]; n.cfg.classes.refused(e.class) == Skip {
				r.skipped = true
			}
		}))
		if i == 0 || chunk[i-1].Topic != e.Topic {
			land("topic unusable of", row, unusable, func(_ *world, _ int, o *Event) error {
				if o.Topic == e.Topic {
					return failedTopic
				}
				return nil
			})
		}
		if i == 0 || simPartition("", chunk[i-1].Key) != simPartition("", e.Key) {
			land("no answer from the partition of", row, silences, func(_ *world, _ int, o *Event) error {
				if scopeOf(o, ScopePartition, simPartition) == scopeOf(e, ScopePartition, simPartition) {
					return failedNoAnswer
				}
				return nil
			})
		}
	}
}

// land decides the outcomes of the chunk. After a failure nothing more of its partition is sent.
func (w *world) land(mm *modelMember, of func(n *world, j int, e *Event) error) {
	failed := map[int32]bool{}
	mm.landed, mm.errs = true, make([]error, 0, len(mm.flow.sending))
	for j, e := range mm.flow.sending {
		if p := simPartition("", e.Key); failed[p] {
			mm.errs = append(mm.errs, failedUnsent)
			continue
		}
		err := of(w, j, e)
		switch classOf(err) {
		case none:
			w.acknowledge(e)
		case Unanswered, TopicUnusable:
		default:
			failed[simPartition("", e.Key)] = true
		}
		mm.errs = append(mm.errs, err)
	}
}

// outcomes brings the member what became of its chunk.
func (w *world) outcomes(mm *modelMember) {
	f := mm.flow
	prefetched := slices.Clone(f.queue)
	out := f.published(mm.errs, modelNow)
	mm.landed, mm.errs = false, nil
	switch w.broken {
	case failedRowsBehindPrefetch:
		rotate(f, len(f.queue)-len(prefetched))
	case barredPartitionFlows:
		for scope := range f.failing.all {
			if scope.Kind == ScopePartition {
				f.failing.remove(scope)
			}
		}
	case holdLeavesCarriedRows:
		if len(out.held)+len(out.refused) > 0 {
			putBack(f, prefetched)
		}
	}
}

// record is a copy that arrives in Kafka.
func (w *world) record(e *Event) {
	row := rowOf(e.EventID)
	r := &w.rows[row]
	if r.copied {
		if r.spare--; r.spare < 0 {
			w.wrong("sent twice without a reason", row)
		}
		return
	}
	r.copied = true
	for i := range w.cfg.keys {
		later := &w.rows[i]
		if w.cfg.keys[i] == e.Key && later.id > r.id && later.copied && later.cut == r.cut && !r.skipped {
			w.wrong("came after a later event", row)
		}
	}
}

// handOver begins to send. Nothing that waits may be in it.
func (w *world) handOver(m int) {
	mm := w.members[m]
	f := mm.flow
	if len(f.sending) > 0 || len(f.queue) == 0 || mm.zombie || f.lanes.Len() == 0 {
		return
	}
	mm.landed, mm.errs = false, nil
	for _, e := range f.nextChunk() {
		if f.standing(e) != nil {
			w.wrong("sent though it waits", rowOf(e.EventID))
		}
		if int(w.owner[e.Lane]) == m && w.waitsParked(e) {
			w.wrong("sent though it is parked, or waits with one that is", rowOf(e.EventID))
		}
	}
	if w.broken == settleBeforeAck {
		f.acked = append(f.acked, f.sending...)
	}
}

// waitsParked tells whether the event waits with a parked one that is still to be published.
func (w *world) waitsParked(e *Event) bool {
	every := &request{Read: Read{Parked: []ScopeKind{ScopeKey, ScopeAggregate, ScopeEvent}, ParkedUpTo: math.MaxInt64}}
	for id, p := range w.parked {
		if w.unpublished(rowOf(p.EventID)) && waitsParked(map[int64]*simParked{id: p}, every, e) {
			return true
		}
	}
	return false
}
