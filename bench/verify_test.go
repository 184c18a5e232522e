package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestVerdict(t *testing.T) {
	// Events 1 and 2 are of one key, 3 is of another.
	l := &ledger{keys: 1000, run: 2, topics: []string{"t"}, next: 4}
	if l.key(1) != l.key(2) || l.key(2) == l.key(3) {
		t.Fatalf("keys %s %s %s", l.key(1), l.key(2), l.key(3))
	}
	load := load{place: place{ledger: l}}
	record := func(n int, partition int32) *kgo.Record {
		rec := load.record(n)
		rec.Partition = partition
		return rec
	}
	changed := func(change func(*kgo.Record)) *kgo.Record {
		rec := record(3, 1)
		change(rec)
		return rec
	}
	a, b, c := record(1, 0), record(2, 0), record(3, 1)
	tests := map[string]struct {
		records []*kgo.Record
		want    string // empty if sound
	}{
		"sound":                   {[]*kgo.Record{a, b, c}, ""},
		"another key in between":  {[]*kgo.Record{a, c, b}, ""},
		"lost":                    {[]*kgo.Record{a, b}, "1 events lost, 0 repeated, 0 unknown, 0 changed, 0 re"},
		"repeated":                {[]*kgo.Record{a, b, c, a}, "0 events lost, 1 repeated, 0 unknown, 0 changed, 0 re"},
		"unknown":                 {[]*kgo.Record{a, b, c, record(4, 0)}, "0 events lost, 0 repeated, 1 unknown"},
		"not ours":                {[]*kgo.Record{a, b, c, {}}, "0 events lost, 0 repeated, 1 unknown"},
		"reordered":               {[]*kgo.Record{b, a, c}, "0 changed, 1 reordered"},
		"a key on two partitions": {[]*kgo.Record{a, record(2, 1), c}, "0 changed, 1 reordered"},
		"another value": {[]*kgo.Record{a, b, changed(func(r *kgo.Record) {
			r.Value = []byte(strings.Replace(string(r.Value), "1.10", "1.1", 1))
		})}, "1 changed"},
		"another key":   {[]*kgo.Record{a, b, changed(func(r *kgo.Record) { r.Key = []byte("order-x") })}, "1 changed"},
		"another topic": {[]*kgo.Record{a, b, changed(func(r *kgo.Record) { r.Topic = "u" })}, "1 changed"},
		"another id":    {[]*kgo.Record{a, b, changed(func(r *kgo.Record) { r.Headers = nil })}, "1 changed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := newVerdict(l)
			for _, rec := range test.records {
				v.take(rec)
			}
			switch err := v.err(); {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
			if strings.HasSuffix(test.want, "reordered") && v.forgiving() != nil {
				t.Errorf("forgiving: %v", v.forgiving())
			}
		})
	}
}

// A key comes again at uneven distances, soon after itself too: chunks on their way share keys.
func TestKeysAreBursty(t *testing.T) {
	l := &ledger{keys: 1000, run: 8}
	last := map[string]int{}
	distances := map[int]int{}
	runs, near := 0, 0
	for n := 1; n <= 100_000; n += l.run {
		for i := range l.run {
			if l.key(n+i) != l.key(n) {
				t.Fatalf("the run from %d on is broken at %d", n, n+i)
			}
		}
		runs++
		if before, ok := last[l.key(n)]; ok {
			distances[n-before]++
			if n-before < 2000 {
				near++
			}
		}
		last[l.key(n)] = n
	}
	if len(last) < 990 || len(distances) < 1000 || near < runs/10 {
		t.Errorf("%d runs: %d keys, %d distances, %d within a chunk", runs, len(last), len(distances), near)
	}
}
