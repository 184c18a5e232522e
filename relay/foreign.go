package relay

import (
	"errors"
	"fmt"
	"time"
)

// ErrRowsLocked means that rows of our lanes stayed locked by another transaction for longer than a settle waits.
var ErrRowsLocked = errors.New("rows of this outbox stay locked by another transaction")

// foreign finds a relay that works outside the lanes: it publishes or locks rows that are ours. A single row may be an
// operator's, and a lane that has just come to us may bring marks of its last owner, so it takes several signs within
// foreignWindow, and none counts within the grace after the latest gain of a lane.
type foreign struct {
	need  int // signs within foreignWindow
	grace time.Duration
	since time.Time
	signs []time.Time
}

const (
	foreignWindow = time.Minute
	foreignSigns  = 3  // rows of ours that are published or gone when we settle them
	foreignLocks  = 10 // settles that waited in vain for a lock; a few may be somebody's ALTER TABLE
)

// pardon starts the grace anew.
func (f *foreign) pardon(now time.Time) { f.signs, f.since = nil, now }

// seen counts a sign, and returns an ErrForeignRelay when they are too many to be chance.
func (f *foreign) seen(now time.Time, what string) error {
	if now.Sub(f.since) < f.grace {
		return nil
	}
	f.signs = append(f.signs, now)
	for now.Sub(f.signs[0]) > foreignWindow {
		f.signs = f.signs[1:]
	}
	if len(f.signs) < f.need {
		return nil
	}
	return fmt.Errorf("%w (%s)", ErrForeignRelay, what)
}
