package relay

import "testing"

func writers(ids ...string) []Writer {
	var all []Writer
	for _, id := range ids {
		all = append(all, Writer{ID: id, Prepared: id[0] == '-' || id[0] == 'p'})
	}
	return all
}

func TestHorizon(t *testing.T) {
	type step struct {
		last  int64
		open  []Writer
		final int64
	}
	for name, steps := range map[string][]step{
		"nobody writes": {{5, nil, 5}, {9, nil, 9}},
		"a writer is open": {{5, writers("a"), noHorizon}, {9, writers("a"), noHorizon}, {9, writers("b"), 5},
			{9, nil, 9}},
		"others come and go": {{5, writers("a", "b"), noHorizon}, {7, writers("b", "c"), noHorizon},
			{9, writers("c", "d"), 5}},
		"prepared and waited":    {{5, writers("p1"), noHorizon}, {9, writers("p1"), noHorizon}, {9, writers("p2"), 5}},
		"always one is prepared": {{5, writers("p1"), noHorizon}, {6, writers("p2"), 5}, {7, writers("p3"), 6}},
		"prepared by a restart": {{5, writers("a"), noHorizon}, {6, writers("-1/7"), noHorizon},
			{7, writers("-1/7", "b"), noHorizon}, {8, writers("b"), 5}},
		"a recovered one ends": {{5, writers("-1/7"), noHorizon}, {6, writers("-1/8"), 5}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHorizon()
			for i, s := range steps {
				if h.observe(Horizon{Last: s.last, Writers: s.open}) {
					t.Fatalf("step %d: the sequence seems to go backwards", i)
				}
				if h.final != s.final {
					t.Fatalf("step %d: H is %d, want %d", i, h.final, s.final)
				}
			}
		})
	}
	h := newHorizon()
	h.observe(Horizon{Last: 10})
	if !h.observe(Horizon{Last: 3, Writers: writers("a")}) || h.final != noHorizon {
		t.Errorf("a sequence that went backwards leaves H at %d", h.final)
	}
}
