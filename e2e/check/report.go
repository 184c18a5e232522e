package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of fault.
type Kind string

// The kinds of fault.
const (
	Missing   Kind = "missing"    // committed, not in Kafka
	Phantom   Kind = "phantom"    // in Kafka, never committed
	Reordered Kind = "reordered"  // first delivered after a later event of its topic and key
	Split     Kind = "split"      // a key of a topic stands on two partitions, so it has no order at all
	Altered   Kind = "altered"    // key, topic or value are not the event's own, byte for byte
	Headers   Kind = "headers"    // a header is wrong, missing, double or one too many
	Backdated Kind = "backdated"  // a record's time lies before the run
	Early     Kind = "early mark" // marked as published before Kafka had it
	Unmarked  Kind = "unmarked"   // still unpublished in the table at the end
	Vanished  Kind = "vanished"   // committed, and gone from a table that nothing may delete from
)

var kinds = []Kind{Missing, Phantom, Reordered, Split, Altered, Headers, Backdated, Early, Unmarked, Vanished}

// Report is a verdict.
type Report struct {
	Committed  int // events that were committed
	Records    int // records in Kafka
	Duplicates int // records beyond the first of their event; not a fault in itself, the promise bounds it
	findings   map[Kind][]string
}

// Count tells how many events show a fault of the kind.
func (r Report) Count(k Kind) int { return len(r.findings[k]) }

// Err returns nil when no fault was found, else all kinds found with their count and first examples.
func (r Report) Err() error {
	var all []error
	for _, k := range kinds {
		if n := r.Count(k); n > 0 {
			examples := r.findings[k][:min(n, 5)]
			all = append(all, fmt.Errorf("%s: %d\n\t%s", k, n, strings.Join(examples, "\n\t")))
		}
	}
	return errors.Join(all...)
}

// String is one line with every count that says something.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "committed %d, records %d, duplicates %d", r.Committed, r.Records, r.Duplicates)
	for _, k := range kinds[:3] {
		fmt.Fprintf(&b, ", %s %d", k, r.Count(k))
	}
	for _, k := range kinds[3:] {
		if n := r.Count(k); n > 0 {
			fmt.Fprintf(&b, ", %s %d", k, n)
		}
	}
	return b.String()
}

func (r *Report) add(k Kind, format string, args ...any) {
	r.findings[k] = append(r.findings[k], fmt.Sprintf(format, args...))
}

// Kinds lists all kinds of fault.
func Kinds() []Kind { return slices.Clone(kinds) }
