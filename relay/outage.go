package relay

import (
	"log/slog"
	"sync"
	"time"
)

// remindEvery is how often an outage that goes on is logged again.
const remindEvery = 30 * time.Second

// outage logs the failures of one server: the first at once, another reason at once, the same reason now and then, and
// the end. An outage of an hour is a handful of lines, however often it is met.
type outage struct {
	log    *slog.Logger
	server string

	mu     sync.Mutex
	since  time.Time // zero while the server answers
	logged time.Time
	reason string
	times  int
}

func newOutage(log *slog.Logger, server string) *outage { return &outage{log: log, server: server} }

// met takes in what a call came to.
func (o *outage) met(err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		if !o.since.IsZero() {
			o.log.Info(o.server+" answers again", "after", now.Sub(o.since).Round(time.Millisecond).String())
		}
		o.since, o.reason, o.times = time.Time{}, "", 0
		return
	}
	if o.since.IsZero() {
		o.since = now
	}
	o.times++
	if o.reason == err.Error() && now.Sub(o.logged) < remindEvery {
		return
	}
	o.reason, o.logged = err.Error(), now
	if o.times == 1 {
		o.log.Warn(o.server+" fails, trying again", "reason", o.reason)
		return
	}
	o.log.Warn(o.server+" still fails, trying again", "for", now.Sub(o.since).Round(time.Second).String(), "times",
		o.times,
		"reason", o.reason)
}
