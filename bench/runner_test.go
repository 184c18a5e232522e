package main

import (
	"testing"
	"time"
)

// Another subject begins each round, and scenarios without bars are done three times at most.
func TestTurns(t *testing.T) {
	o := options{rounds: 5, scenarios: "drain,held-xmin", subjects: "handwritten-50,posthaste"}
	r, err := newRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]int{}
	count := map[string]int{}
	for i, turn := range r.turns() {
		count[turn.scenario.name]++
		if turn.scenario.name == "drain" && (i == 0 || r.turns()[i-1].round < turn.round) {
			first[turn.subject.Name()]++
		}
	}
	if count["drain"] != 10 || count["held-xmin"] != 6 {
		t.Errorf("turns %v, want 10 of drain and 6 of held-xmin", count)
	}
	if first["handwritten-50"] != 3 || first["posthaste"] != 2 {
		t.Errorf("first in a round: %v, want 3 and 2", first)
	}
}

// The time left is what the same measurement took last, else the mean of its scenario, else of all.
func TestClock(t *testing.T) {
	o := options{rounds: 2, scenarios: "drain,held-xmin", subjects: "handwritten-50,posthaste"}
	r, err := newRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	c := newClock(r.turns()) // drain hw, drain ph, held hw, held ph; drain ph, drain hw, held ph, held hw
	if left := c.left(0); left != "time left unknown" {
		t.Errorf("at the start %q", left)
	}
	c.took(0, 100*time.Second)
	if left := c.left(1); left != "about 11m40s left" {
		t.Errorf("after one of 100 s: %q", left)
	}
	c.took(1, 20*time.Second)
	c.skip(2)
	if left := c.left(4); left != "about 3m0s left" { // 20 + 100, the mean of all for held ph, nothing for held hw
		t.Errorf("at the second round: %q", left)
	}
}
