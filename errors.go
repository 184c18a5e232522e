package posthaste

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Why an event was refused, to be asked for with errors.Is. All come inside an [EventError].
var (
	ErrUnknownType    = errors.New("is not registered")
	ErrEmpty          = errors.New("is empty")
	ErrNUL            = errors.New("holds a NUL character, which PostgreSQL can't store")
	ErrInvalidUTF8    = errors.New("is not valid UTF-8")
	ErrInvalidJSON    = errors.New("is not a valid JSON object")
	ErrRepeatedKey    = errors.New("repeats a key, of which jsonb would keep only the last")
	ErrNumberRange    = errors.New("holds a number outside the range of PostgreSQL's numeric")
	ErrTooDeep        = errors.New("is nested too deeply")
	ErrMismatch       = errors.New("contradicts the event")
	ErrOutOfRange     = errors.New("is out of range")
	ErrTooLarge       = errors.New("is too large")
	ErrReservedHeader = errors.New("is a header name of the relay's own")
	ErrNoHeaders      = errors.New("needs the column headers, which Config.Headers says the table lacks")
)

// ErrDuplicateEvent is wrapped by the [EventError] of an event whose id stands in the table already, or twice in one
// call. In the first case PostgreSQL has failed the transaction: roll it back. Where the id is that of a message that
// was handled before, the work is done and there is nothing to repeat.
var ErrDuplicateEvent = errors.New("was written before")

// ErrDeadlock is wrapped when PostgreSQL chose this transaction as the victim of a deadlock, which [Config.Strict]
// makes possible: two transactions write events of the same keys, in more than one call each and in different order.
// The transaction has failed; [Retriable] is true.
var ErrDeadlock = errors.New("deadlock with another transaction")

// ErrImperative is wrapped by the [EventTypeError] of a name that is a command.
var ErrImperative = errors.New("is a command")

// EventError is one reason why one event can't be written.
type EventError struct {
	Index     int       // place of the event among those of the call, from 0; -1 where the database did not tell which
	EventType string    // Event.Type as given
	EventID   uuid.UUID // zero where the event has none yet
	Field     string    // the column, such as "partition_key"; for a header, its name too: `headers["tenant"]`
	Err       error     // wraps one of the sentinels of this package
}

func (e *EventError) Error() string {
	var b strings.Builder
	if e.Index >= 0 {
		fmt.Fprintf(&b, "event %d", e.Index)
	} else {
		b.WriteString("an event of the call")
	}
	if e.EventType != "" {
		b.WriteString(" " + printable(e.EventType))
	}
	if e.EventID != uuid.Nil {
		b.WriteString(" " + e.EventID.String())
	}
	fmt.Fprintf(&b, ": %s %v", e.Field, e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *EventError) Unwrap() error { return e.Err }

// EventTypeError is one mistake in one event type.
type EventTypeError struct {
	EventType string // its String
	Field     string // the field of EventType
	Err       error
}

func (e *EventTypeError) Error() string {
	return fmt.Sprintf("event type %s: %s %v", printable(e.EventType), e.Field, e.Err)
}

// Unwrap returns Err.
func (e *EventTypeError) Unwrap() error { return e.Err }

// RefusedError holds every reason why the events of one call were refused. Nothing was sent to PostgreSQL and the
// transaction is as usable as before. errors.Is and errors.As look into all reasons.
type RefusedError struct {
	Given   int           // how many events the call had
	Reasons []*EventError // ordered by event; one event may have several
}

func (e *RefusedError) Error() string {
	refused, last := 0, -1
	for _, reason := range e.Reasons {
		if reason.Index != last {
			refused, last = refused+1, reason.Index
		}
	}
	return fmt.Sprintf("write events: %d of %d refused, nothing was written:%v",
		refused, e.Given, refusals[*EventError](e.Reasons))
}

// Unwrap returns the reasons.
func (e *RefusedError) Unwrap() []error { return refusals[*EventError](e.Reasons).Unwrap() }

// refusals is several errors told as one, in a text that follows a colon and stays readable when there are thousands.
type refusals[E error] []E

func (r refusals[E]) Error() string {
	const shown = 20
	if len(r) == 1 {
		return " " + r[0].Error()
	}
	var b strings.Builder
	for i, err := range r {
		if i == shown {
			fmt.Fprintf(&b, "\n  and %d more", len(r)-shown)
			break
		}
		b.WriteString("\n  " + err.Error())
	}
	return b.String()
}

func (r refusals[E]) Unwrap() []error {
	all := make([]error, len(r))
	for i, err := range r {
		all[i] = err
	}
	return all
}

// printable keeps a text of the caller's from breaking the line it is reported in.
func printable(s string) string {
	const longest = 120
	if len(s) > longest {
		s = s[:longest] + "..."
	}
	if quoted := fmt.Sprintf("%q", s); len(quoted) != len(s)+2 {
		return quoted
	}
	return s
}
