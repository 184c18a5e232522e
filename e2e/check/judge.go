package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Judge compares the witnesses. It counts every fault that it finds, each against the event that shows it.
func Judge(h History) Report {
	r := Report{Records: len(h.Records), findings: map[Kind][]string{}}
	committed := h.committed(&r)
	r.Committed = len(committed)

	records := slices.Clone(h.Records)
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Offset, b.Offset))
	})
	first := map[string]Record{}
	orders := map[lineKey]*line{}
	for _, rec := range records {
		id := rec.Header("event_id")
		e, known := committed[id]
		if !known {
			r.add(Phantom, "event %q in %s", id, rec.place())
			continue
		}
		r.judgeRecord(e, rec, h.Start)
		if _, seen := first[id]; seen {
			r.Duplicates++
			continue
		}
		first[id] = rec
		k := lineKey{rec.Topic, e.Key}
		if orders[k] == nil {
			orders[k] = &line{partition: rec.Partition}
		}
		orders[k].take(&r, e, rec, h.Ordered == nil || h.Ordered(e))
	}
	for _, e := range committed {
		if _, ok := first[e.EventID]; !ok {
			r.add(Missing, "%s", e)
		}
	}
	h.judgeAudits(&r, first)
	return r
}

// committed unites ledger and table by event id. The table's word on value and headers goes before the writer's.
func (h History) committed(r *Report) map[string]Event {
	all := make(map[string]Event, len(h.Ledger))
	for _, e := range h.Ledger {
		all[e.EventID] = e
	}
	inTable := make(map[string]bool, len(h.Table))
	for _, e := range h.Table {
		all[e.EventID] = e
		inTable[e.EventID] = true
		if !e.Published {
			r.add(Unmarked, "%s", e)
		}
	}
	if !h.Deletes {
		for _, e := range h.Ledger {
			if !inTable[e.EventID] {
				r.add(Vanished, "%s", e)
			}
		}
	}
	return all
}

// A line is what one key of a topic has to be: one partition, ids going up among first deliveries.
type (
	lineKey struct{ topic, key string }
	line    struct {
		partition int32
		last      Event
	}
)

func (l *line) take(r *Report, e Event, rec Record, ordered bool) {
	if rec.Partition != l.partition {
		r.add(Split, "%s in %s, earlier ones in partition %d", e, rec.place(), l.partition)
	}
	if !ordered {
		return
	}
	if e.ID < l.last.ID {
		r.add(Reordered, "%s in %s, after id %d", e, rec.place(), l.last.ID)
		return
	}
	l.last = e
}

func (r *Report) judgeRecord(e Event, rec Record, start time.Time) {
	switch {
	case rec.Topic != e.Topic:
		r.add(Altered, "%s in %s: topic", e, rec.place())
	case rec.Key == nil || string(rec.Key) != e.Key:
		r.add(Altered, "%s in %s: key %q", e, rec.place(), rec.Key)
	case string(rec.Value) != e.Value:
		r.add(Altered, "%s in %s: value %.200q, want %.200q", e, rec.place(), rec.Value, e.Value)
	}
	if wrong := wrongHeaders(e, rec.Headers); wrong != "" {
		r.add(Headers, "%s in %s: %s", e, rec.place(), wrong)
	}
	// Kafka keeps milliseconds.
	if !start.IsZero() && rec.Time.Before(start.Truncate(time.Millisecond)) {
		r.add(Backdated, "%s in %s: %s", e, rec.place(), rec.Time)
	}
}

// wrongHeaders names the first thing wrong with a record's headers, "" where nothing is.
func wrongHeaders(e Event, headers []Header) string {
	want := map[string]string{}
	for name, value := range e.Headers {
		want[name] = value
	}
	want["event_id"] = e.EventID
	want["event_type"] = e.Type
	want["aggregate_type"] = e.AggregateType
	want["aggregate_id"] = e.AggregateID
	want["outbox_id"] = strconv.FormatInt(e.ID, 10)
	want["created_at"] = "" // compared as an instant
	for _, h := range headers {
		value, ok := want[h.Name]
		if !ok {
			return fmt.Sprintf("header %q is one too many", h.Name)
		}
		delete(want, h.Name)
		if h.Name == "created_at" {
			at, err := time.Parse(time.RFC3339Nano, h.Value)
			if err != nil || !strings.HasSuffix(h.Value, "Z") || !at.Equal(e.CreatedAt) {
				return fmt.Sprintf("created_at %q, want the instant %s in UTC", h.Value, e.CreatedAt.UTC())
			}
		} else if h.Value != value {
			return fmt.Sprintf("header %s %q, want %q", h.Name, h.Value, value)
		}
	}
	for name := range want {
		return fmt.Sprintf("header %s is missing", name)
	}
	return ""
}

// judgeAudits finds events that were marked before they were in Kafka, each once.
func (h History) judgeAudits(r *Report, first map[string]Record) {
	found := map[string]bool{}
	for _, a := range h.Audits {
		for _, id := range a.Marked {
			rec, ok := first[id]
			if ok && rec.Offset < a.Ends[Partition{rec.Topic, rec.Partition}] || found[id] {
				continue
			}
			found[id] = true
			r.add(Early, "event %s was marked before Kafka had it", id)
		}
	}
}

// String names an event in a finding.
func (e Event) String() string {
	return fmt.Sprintf("event %s (id %d, key %.80q, topic %s)", e.EventID, e.ID, e.Key, e.Topic)
}

func (r Record) place() string { return fmt.Sprintf("%s[%d]@%d", r.Topic, r.Partition, r.Offset) }
