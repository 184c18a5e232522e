//go:build unix

package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// history is all that is known of a run: the word of the service, of the table and of Kafka.
type history struct {
	committed  []written
	rolledBack map[string]bool
	table      []row
	records    []record
	open       map[string]bool // what was unpublished in the lanes of the relay that was killed, when it was
}

// verdict counts faults, each against the event that shows it.
type verdict struct {
	delivered  int // events in Kafka that were committed
	lost       int // committed, not in Kafka or not in the table
	phantom    int // in Kafka or in the table, never committed
	reordered  int // first delivered after a later one of its topic and order, or in another partition
	altered    int // not with the key and the value that the table has
	unmarked   int // in the table, still not marked as published
	duplicated int // records beyond the first of an event
	excess     int // of these, those that were not open at the kill: no crash excuses them

	examples []string
}

func (v *verdict) find(count *int, format string, args ...any) {
	*count++
	if len(v.examples) < 5 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// err is nil where nothing was found. Duplicates of what was in flight at the kill are no fault.
func (v *verdict) err() error {
	faults := []struct {
		count int
		what  string
	}{
		{v.lost, "lost"}, {v.phantom, "phantom"}, {v.reordered, "reordered"}, {v.altered, "altered"},
		{v.unmarked, "unmarked"}, {v.excess, "duplicated without cause"},
	}
	var found []string
	for _, f := range faults {
		if f.count > 0 {
			found = append(found, fmt.Sprintf("%s %s", grouped(f.count), f.what))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("check failed: %s\n  %s", strings.Join(found, ", "), strings.Join(v.examples, "\n  "))
}

// judge compares the witnesses. Order is that of the service's own numbers, not of the table's ids.
func judge(h history) *verdict {
	v := &verdict{}
	committed := make(map[string]written, len(h.committed))
	for _, e := range h.committed {
		committed[e.id] = e
	}
	table := v.judgeTable(h, committed)

	records := slices.Clone(h.records)
	slices.SortFunc(records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition),
			cmp.Compare(a.offset, b.offset))
	})
	seen := make(map[string]bool, len(committed))
	lines := map[[2]string]*line{}
	for _, r := range records {
		e, known := committed[r.eventID]
		switch {
		case !known && h.rolledBack[r.eventID]:
			v.find(&v.phantom, "%s was rolled back", r)
			continue
		case !known:
			v.find(&v.phantom, "%s was never written", r)
			continue
		}
		if t := table[e.id]; r.topic != e.topic || r.key != e.key || t.id != "" && r.value != t.payload {
			v.find(&v.altered, "%s is not what the table has: %s", r, t.payload)
		}
		if seen[e.id] {
			v.duplicated++
			if !h.open[e.id] {
				v.find(&v.excess, "%s is there again, and was not in flight at the kill", r)
			}
			continue
		}
		seen[e.id] = true
		v.delivered++
		at := [2]string{e.topic, e.key}
		if lines[at] == nil {
			lines[at] = &line{partition: r.partition}
		}
		v.judgeOrder(lines[at], e, r)
	}
	for _, e := range h.committed {
		if !seen[e.id] {
			v.find(&v.lost, "event %s, number %d of %s, is not in Kafka", e.id, e.number, e.key)
		}
	}
	return v
}

// judgeTable holds the table against the service's ledger.
func (v *verdict) judgeTable(h history, committed map[string]written) map[string]row {
	table := make(map[string]row, len(h.table))
	for _, t := range h.table {
		table[t.id] = t
		if _, known := committed[t.id]; !known {
			v.find(&v.phantom, "event %s is in the table and was never committed", t.id)
		} else if !t.published {
			v.find(&v.unmarked, "event %s is not marked as published", t.id)
		}
	}
	for _, e := range h.committed {
		if _, there := table[e.id]; !there {
			v.find(&v.lost, "event %s, number %d of %s, is not in the table", e.id, e.number, e.key)
		}
	}
	return table
}

// line is one order's events in one topic.
type line struct {
	partition int32
	last      int
}

func (v *verdict) judgeOrder(l *line, e written, r record) {
	switch {
	case r.partition != l.partition:
		v.find(&v.reordered, "%s is not in partition %d like the ones before", r, l.partition)
	case e.number < l.last:
		v.find(&v.reordered, "%s, number %d of %s, comes after number %d", r, e.number, e.key, l.last)
	}
	l.last = max(l.last, e.number)
}

func (r record) String() string {
	return fmt.Sprintf("record %s[%d]@%d (event %q)", r.topic, r.partition, r.offset, r.eventID)
}
