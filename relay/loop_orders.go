package relay

import "time"

// maxRequests is how many parked events are released with one exchange: each read names what is being caught up with.
const maxRequests = 500

// orders is what the loop knows of the operators' words.
type orders struct {
	taken    time.Time // when the beat was begun that they are from
	doubted  time.Time // what an earlier beat says of parked events may be wrong
	requests bool
	looks    looks
	checked  time.Time // when parked events were looked at last
}

// ghosts is how many parked events are looked at once a second, whether they are still to be published: a relay that
// had been given up may have sent them.
const ghosts = 500

// doubt expects any kind of parked events until a later beat has told what there is.
func (o *orders) doubt(f *flow, now time.Time) {
	o.doubted = now
	f.doubtParked()
}

// followOrders takes over what the latest beat has found in the side tables.
func (l *loop) followOrders(now time.Time) {
	view, at := l.member.latest()
	o := &l.orders
	if !at.After(o.taken) {
		return
	}
	o.taken, o.requests = at, view.Requests
	if at.After(o.doubted) {
		l.flow.parked, l.flow.parkedUpTo = view.Parked, view.ParkedUpTo
	}
	begun, ended := l.flow.pause(view.Pauses, now)
	if len(ended) > 0 {
		l.publisher.Renew() // partitions may have been added
	}
	logFew(l.log, begun, "pauses", func(h *hold) { l.logPause("an operator's pause begins", h) })
	logFew(l.log, ended, "pauses ended", func(h *hold) { l.logPause("an operator's pause has ended", h) })
	o.looks.follow(view.Looks, &l.flow.failing, now)
}

// looks are the topics that operators have wanted looked at again, and when each was asked for.
type looks map[string]time.Time

// follow makes the holds due at once that were not asked for before.
func (l *looks) follow(asked []TopicLook, failing *holds, now time.Time) {
	seen := make(looks, len(asked))
	for _, look := range asked {
		seen[look.Topic] = look.Asked
		if !(*l)[look.Topic].Equal(look.Asked) {
			failing.look(look.Topic, now)
		}
	}
	*l = seen
}

func (l *loop) logPause(what string, h *hold) {
	l.log.Warn(what, "pause", h.pause, "scope", h.scope.Kind.String(), "topic", h.scope.Topic, "key", h.scope.Key)
}
