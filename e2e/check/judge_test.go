package check_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// sound is a history without a fault: four events of key a, two of key b, published, delivered once, audited.
func sound() check.History {
	h := check.History{Start: start}
	offsets := map[int32]int64{}
	for i := range 6 {
		e := check.Event{
			ID: int64(i + 1), EventID: fmt.Sprintf("e%d", i+1), AggregateType: "Order", AggregateID: "7",
			Type: "order.confirmed.v1", Topic: "t", Key: "a", Value: fmt.Sprintf(`{"n": %d}`, i+1), CreatedAt: start,
			Headers: map[string]string{"tenant": `a"b`}, Published: true,
		}
		var partition int32
		if i >= 4 {
			e.Key, partition = "b", 1
		}
		h.Table = append(h.Table, e)
		h.Records = append(h.Records, record(e, partition, offsets[partition]))
		offsets[partition]++
	}
	h.Ledger = append(h.Ledger, h.Table...)
	h.Audits = []check.Audit{{
		Marked: []string{"e1", "e2", "e5"},
		Ends:   map[check.Partition]int64{{Topic: "t", Num: 0}: 2, {Topic: "t", Num: 1}: 1},
	}}
	return h
}

func record(e check.Event, partition int32, offset int64) check.Record {
	return check.Record{
		Topic: e.Topic, Partition: partition, Offset: offset, Key: []byte(e.Key), Value: []byte(e.Value),
		Time: start.Add(time.Second),
		Headers: []check.Header{
			{Name: "event_id", Value: e.EventID}, {Name: "event_type", Value: e.Type},
			{Name: "aggregate_type", Value: e.AggregateType}, {Name: "aggregate_id", Value: e.AggregateID},
			{Name: "created_at", Value: e.CreatedAt.Format(time.RFC3339Nano)},
			{Name: "outbox_id", Value: strconv.FormatInt(e.ID, 10)}, {Name: "tenant", Value: `a"b`},
		},
	}
}

func TestSoundHistoryPasses(t *testing.T) {
	r := check.Judge(sound())
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if want := "committed 6, records 6, duplicates 0, missing 0, phantom 0, reordered 0"; r.String() != want {
		t.Errorf("report %q, want %q", r, want)
	}
}

func TestEveryFaultIsFound(t *testing.T) {
	swap := func(h *check.History, i, j int) {
		a, b := &h.Records[i], &h.Records[j]
		a.Offset, b.Offset = b.Offset, a.Offset
	}
	dropHeader := func(rec *check.Record, name string) {
		var kept []check.Header
		for _, h := range rec.Headers {
			if h.Name != name {
				kept = append(kept, h)
			}
		}
		rec.Headers = kept
	}
	setHeader := func(rec *check.Record, name, value string) {
		for i := range rec.Headers {
			if rec.Headers[i].Name == name {
				rec.Headers[i].Value = value
			}
		}
	}
	tests := map[string]struct {
		harm func(*check.History)
		want map[check.Kind]int
	}{
		"an event never arrives": {
			func(h *check.History) { h.Records = append(h.Records[:1], h.Records[2:]...); h.Audits = nil },
			map[check.Kind]int{check.Missing: 1},
		},
		"an event of the ledger alone never arrives": {
			func(h *check.History) { h.Deletes, h.Table, h.Records, h.Audits = true, nil, h.Records[:5], nil },
			map[check.Kind]int{check.Missing: 1},
		},
		"a rolled back event arrives": {
			func(h *check.History) {
				h.Records = append(h.Records, record(check.Event{EventID: "rolled-back", Topic: "t", Key: "a"}, 0, 9))
			},
			map[check.Kind]int{check.Phantom: 1},
		},
		"a record without event id": {
			func(h *check.History) {
				h.Records = append(h.Records, check.Record{Topic: "t", Offset: 9, Key: []byte("a"), Time: start})
			},
			map[check.Kind]int{check.Phantom: 1},
		},
		"two events of a key change places": {
			func(h *check.History) { swap(h, 2, 3) },
			map[check.Kind]int{check.Reordered: 1},
		},
		"one event comes after all others of its key": {
			func(h *check.History) { h.Records[0].Offset = 8; h.Audits = nil },
			map[check.Kind]int{check.Reordered: 1},
		},
		"a later copy in place does not mend the order": {
			func(h *check.History) {
				swap(h, 2, 3)
				h.Records = append(h.Records, record(h.Table[3], 0, 10))
			},
			map[check.Kind]int{check.Reordered: 1},
		},
		"a key on two partitions": {
			func(h *check.History) { h.Records[3].Partition, h.Records[3].Offset = 1, 5 },
			map[check.Kind]int{check.Split: 1},
		},
		"a reprinted value": {
			func(h *check.History) { h.Records[1].Value = []byte(`{"n":2}`) },
			map[check.Kind]int{check.Altered: 1},
		},
		"no key instead of an empty one": {
			func(h *check.History) { h.Table[1].Key = ""; h.Records[1].Key = nil },
			map[check.Kind]int{check.Altered: 1},
		},
		"another topic": {
			func(h *check.History) { h.Table[3].Topic = "u" },
			map[check.Kind]int{check.Altered: 1},
		},
		"a header missing": {
			func(h *check.History) { dropHeader(&h.Records[1], "aggregate_id") },
			map[check.Kind]int{check.Headers: 1},
		},
		"a header of the column missing": {
			func(h *check.History) { dropHeader(&h.Records[1], "tenant") },
			map[check.Kind]int{check.Headers: 1},
		},
		"a header wrong": {
			func(h *check.History) { setHeader(&h.Records[1], "outbox_id", "99") },
			map[check.Kind]int{check.Headers: 1},
		},
		"a header double": {
			func(h *check.History) {
				second := check.Header{Name: "event_type", Value: "order.confirmed.v1"}
				h.Records[1].Headers = append(h.Records[1].Headers, second)
			},
			map[check.Kind]int{check.Headers: 1},
		},
		"created_at in another zone": {
			func(h *check.History) {
				setHeader(&h.Records[1], "created_at", start.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano))
			},
			map[check.Kind]int{check.Headers: 1},
		},
		"created_at cut to seconds": {
			func(h *check.History) { setHeader(&h.Records[1], "created_at", start.Format(time.RFC3339)) },
			map[check.Kind]int{check.Headers: 1},
		},
		"a record stamped with an old time": {
			func(h *check.History) { h.Records[1].Time = start.Add(-time.Hour) },
			map[check.Kind]int{check.Backdated: 1},
		},
		"marked before it was in Kafka": {
			func(h *check.History) { h.Audits[0].Ends[check.Partition{Topic: "t"}] = 1 },
			map[check.Kind]int{check.Early: 1},
		},
		"marked and never in Kafka": {
			func(h *check.History) { h.Records = h.Records[1:] },
			map[check.Kind]int{check.Early: 1, check.Missing: 1},
		},
		"left unpublished": {
			func(h *check.History) { h.Table[1].Published = false },
			map[check.Kind]int{check.Unmarked: 1},
		},
		"gone from the table": {
			func(h *check.History) { h.Table = h.Table[1:] },
			map[check.Kind]int{check.Vanished: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := sound()
			test.harm(&h)
			r := check.Judge(h)
			for _, k := range check.Kinds() {
				if r.Count(k) != test.want[k] {
					t.Errorf("%s: %d, want %d", k, r.Count(k), test.want[k])
				}
			}
			if err := r.Err(); err == nil {
				t.Error("the verdict is no error")
			}
		})
	}
}

func TestDuplicatesAreCountedAndNoFault(t *testing.T) {
	h := sound()
	h.Records = append(h.Records, record(h.Table[0], 0, 20), record(h.Table[1], 0, 21), record(h.Table[0], 0, 22))
	r := check.Judge(h)
	if r.Duplicates != 3 || r.Err() != nil {
		t.Errorf("%s, %v; want 3 duplicates and no fault", r, r.Err())
	}
}

func TestOrderIsJudgedOnlyWhereItIsPromised(t *testing.T) {
	h := sound()
	h.Records[2].Offset, h.Records[3].Offset = h.Records[3].Offset, h.Records[2].Offset
	h.Ordered = func(e check.Event) bool { return e.Key == "b" }
	if err := check.Judge(h).Err(); err != nil {
		t.Error(err)
	}
}

func TestDeletedRowsCountAsPublished(t *testing.T) {
	h := sound()
	h.Deletes, h.Table = true, nil
	if err := check.Judge(h).Err(); err != nil {
		t.Error(err)
	}
}

// The checker would prove little if it leaned on what it checks.
func TestCheckerSharesNoCodeWithTheRelay(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if strings.HasPrefix(dep, "posthaste.dev/") && dep != "posthaste.dev/posthaste/e2e/check" {
			t.Errorf("the checker imports %s", dep)
		}
	}
}
