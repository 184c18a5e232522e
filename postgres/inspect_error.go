package postgres

import (
	"errors"
	"fmt"
	"strings"
)

// What can be wrong with an outbox. Problems of Inspect, Check and the migrations wrap one of these.
var (
	ErrNoTable       = errors.New("outbox table missing")
	ErrColumn        = errors.New("column missing or of another kind")
	ErrIndex         = errors.New("partial index missing or unusable")
	ErrNoSideSchema  = errors.New("side tables missing")
	ErrSchemaNewer   = errors.New("side tables newer than this program")
	ErrSchemaOlder   = errors.New("side tables older than this program")
	ErrNotRegistered = errors.New("outbox not registered")
	ErrGroup         = errors.New("group of topics missing or at odds with another")
	ErrRowSecurity   = errors.New("row-level security hides rows")
	ErrReadOnly      = errors.New("database read-only")
	ErrRights        = errors.New("rights missing")
	ErrSequence      = errors.New("ids not from a plain sequence")
	ErrRule          = errors.New("rule in the way")
	ErrTrigger       = errors.New("trigger in the way")
	ErrWakeUp        = errors.New("no wake-up")
	ErrInherits      = errors.New("table inherited from")
	ErrIdentity      = errors.New("replica identity missing")
	ErrUnique        = errors.New("not guarded against doubles")
	ErrUnlogged      = errors.New("table unlogged")
	ErrTable         = errors.New("table of another make")
	ErrElsewhere     = errors.New("table in another side schema")
	ErrCluster       = errors.New("another Kafka cluster")

	// These come from migrations alone.
	ErrUnpublished  = errors.New("unpublished events")
	ErrMembers      = errors.New("relays running")
	ErrBusy         = errors.New("table busy")
	ErrPooler       = errors.New("connection through a pooler")
	ErrPartitioned  = errors.New("table partitioned")
	ErrLanes        = errors.New("another number of lanes")
	ErrForeignTable = errors.New("name taken")
)

// Problem is one thing wrong with an outbox, with its way out. It holds no secrets.
type Problem struct {
	Kind  error  // one of the sentinels above; what errors.Is finds
	Cause string // what is wrong
	Fix   string // what to run or to change
}

func (p Problem) Error() string { return p.Cause + "; " + p.Fix }
func (p Problem) Unwrap() error { return p.Kind }

// SchemaError says why a relay can't work on an outbox: every reason found, not only the first.
type SchemaError struct {
	Outbox   string // the table, qualified and quoted
	Problems []Problem
}

func (e *SchemaError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Error()
	}
	if len(texts) == 1 {
		return fmt.Sprintf("check outbox %s: %s", e.Outbox, texts[0])
	}
	for i, t := range texts {
		texts[i] = fmt.Sprintf("(%d) %s", i+1, t)
	}
	return fmt.Sprintf("check outbox %s: %d problems: %s", e.Outbox, len(texts), strings.Join(texts, " "))
}

// Unwrap gives errors.Is every problem's kind, and errors.As the first problem.
func (e *SchemaError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}
