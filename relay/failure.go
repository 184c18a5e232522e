package relay

import (
	"errors"
	"fmt"
)

// Class says what a failure means for the event that met it.
type Class int

// none is the class of what did not fail.
const none Class = -1

// The classes of failures.
const (
	// Outage is a failure of the servers or the way to them, or an unknown outcome: the event is sent again, in the
	// same order, and nothing is counted against it.
	Outage Class = iota
	// TopicUnusable is a topic that does not exist or may not be written: its events wait, all others flow.
	TopicUnusable
	// Refused is the record's own fault; it was seen to fail alone. It is parked, and by the policy of its topic its
	// key waits with it; all others flow.
	Refused
	// Unsent is nobody's failure: the event was not sent, since another one failed first. It is sent again, behind it.
	Unsent
	// Unanswered is nobody's failure yet: the event was sent, and its partition has not answered while others did.
	Unanswered
)

// String returns the class as metrics and logs name it.
func (c Class) String() string {
	switch c {
	case Outage:
		return "outage"
	case TopicUnusable:
		return "topic"
	case Refused:
		return "refused"
	case Unsent:
		return "unsent"
	case Unanswered:
		return "unanswered"
	}
	return fmt.Sprintf("class %d", int(c))
}

// Failure is what a Publisher says of an event that Kafka did not acknowledge. An error of another type counts as an
// Outage.
type Failure struct {
	Class Class
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// classOf returns the class of a publish error.
func classOf(err error) Class {
	if err == nil {
		return none
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	return Outage
}

// Errors that end Run. Each needs a person; everything that time can mend is ridden out instead.
var (
	// ErrDrainTimeout means that the chunk in flight had no answer within the drain timeout at a stop. Its events are
	// sent again by the next relay: some may arrive twice.
	ErrDrainTimeout = errors.New("stop relay: Kafka or PostgreSQL did not answer within the drain timeout; " +
		"what was in flight stays unpublished in the table and is sent again by the next relay")
	// ErrNoHorizon means that OrderStrict has nothing to rest on.
	ErrNoHorizon = errors.New("order strict needs ids that come one by one from the table's own identity sequence " +
		"(GENERATED ALWAYS, cache 1, no cycle): alter the sequence, or run with POSTHASTE_RELAY_ORDER=key")
	// ErrForeignRelay means that something else settles or locks the events that this relay owns.
	ErrForeignRelay = errors.New("another relay works on this outbox table outside the lanes: order and " +
		"single delivery can't be kept; stop it, or run this one with POSTHASTE_RELAY_CLAIM=skip-locked beside it")
)

// Permanent wraps an error of a Store or a Publisher that waiting can't mend: a wrong password, a missing table, a
// setting that the database contradicts. Run ends with it.
type Permanent struct{ Err error }

func (p *Permanent) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Permanent) Unwrap() error { return p.Err }

func permanent(err error) bool {
	_, ok := errors.AsType[*Permanent](err)
	return ok
}
