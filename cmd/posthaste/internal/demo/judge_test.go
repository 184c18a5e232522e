//go:build unix

package demo

import (
	"fmt"
	"strings"
	"testing"
)

// sound is a run without a fault: two orders with three events each, one of them delivered twice after the kill.
func sound() history {
	h := history{rolledBack: map[string]bool{"taken-back": true}, open: map[string]bool{"a2": true}}
	for num, order := range []string{"a", "b"} {
		for n := 1; n <= 3; n++ {
			id := fmt.Sprintf("%s%d", order, n)
			h.committed = append(h.committed, written{id: id, topic: "t", key: order, number: n})
			h.table = append(h.table, row{id: id, topic: "t", key: order, payload: id, published: true})
			h.records = append(h.records,
				record{topic: "t", partition: int32(num), offset: int64(n), key: order, value: id, eventID: id})
		}
	}
	again := h.records[1]
	again.offset = 9
	h.records = append(h.records, again)
	return h
}

func TestSoundRunPasses(t *testing.T) {
	v := judge(sound())
	if v.err() != nil || v.delivered != 6 || v.duplicated != 1 {
		t.Errorf("%+v: want 6 delivered, 1 duplicated and no fault", v)
	}
}

func TestCheckFindsEveryFault(t *testing.T) {
	for name, test := range map[string]struct {
		harm func(*history)
		want string
	}{
		"an event never arrives":      {func(h *history) { h.records = h.records[:5] }, "1 lost"},
		"an event leaves the table":   {func(h *history) { h.table = h.table[1:] }, "1 lost"},
		"a rolled back event arrives": {func(h *history) { h.records[6].eventID = "taken-back" }, "1 phantom"},
		"a stranger arrives":          {func(h *history) { h.records[6].eventID = "" }, "1 phantom"},
		"a stranger in the table": {func(h *history) {
			h.table = append(h.table, row{id: "x", published: true})
		}, "1 phantom"},
		"two events change places": {func(h *history) {
			h.records[0].offset, h.records[1].offset = 2, 1
		}, "1 reordered"},
		"an order changes its partition": {func(h *history) { h.records[5].partition = 4 }, "1 reordered"},
		"another key":                    {func(h *history) { h.records[5].key = "a" }, "1 altered"},
		"another value":                  {func(h *history) { h.records[5].value = "{}" }, "1 altered"},
		"a mark is missing":              {func(h *history) { h.table[3].published = false }, "1 unmarked"},
		"twice what was not in flight":   {func(h *history) { h.open = nil }, "1 duplicated without cause"},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			test.harm(&h)
			err := judge(h).err()
			if err == nil || !strings.HasPrefix(err.Error(), "check failed: "+test.want+"\n") {
				t.Errorf("verdict %v, want %s and nothing else", err, test.want)
			}
		})
	}
}
