package relay

import (
	"testing"
	"time"
)

func lookAt(writers ...string) Result {
	r := Result{Dozing: true, Horizon: &Horizon{}}
	for _, w := range writers {
		r.Horizon.Writers = append(r.Horizon.Writers, Writer{ID: w})
	}
	return r
}

// From the moment at which the word may be out, a writer's call asks for a read, and after the word no sleep is sound
// until the writers have ended who did not see it.
func TestNap(t *testing.T) {
	var n nap
	want := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	want("a call while awake", n.wake(), false)
	want("a word that must not be said", n.word(false), AsBefore)
	want("the word", n.word(true), Doze)
	want("a call while the word is on its way", n.wake(), true)
	want("the word again", n.word(true), AsBefore)
	n.said(Doze, Result{Horizon: &Horizon{}})
	want("after a word that was not taken", n.state, awake)

	want("the word", n.word(true), Doze)
	n.said(Doze, lookAt("3/7", "4/1"))
	want("beside writers", n.state, wary)
	n.said(AsBefore, lookAt("4/1", "5/2"))
	want("beside one of them", n.state, wary)
	n.said(AsBefore, Result{})
	want("without a look", n.state, wary)
	n.said(AsBefore, lookAt("5/2"))
	want("beside a writer that saw the word", n.state, asleep)

	want("the end", n.word(false), Rise)
	want("a call until that is out", n.wake(), true)
	n.said(Rise, Result{})
	want("after it", n.state, awake)
	want("nobody at work", n.word(true), Doze)
	n.said(Doze, lookAt())
	want("nobody at work", n.state, asleep)
}

// Calls that are for others end the sleep for a while only when they come often.
func TestNapEndsWhereOthersAreBusy(t *testing.T) {
	now := time.Now()
	n := nap{state: asleep}
	call := func(times int, apart time.Duration, useful bool) {
		for range times {
			n.wake()
			if !n.takeWord() || n.takeWord() {
				t.Fatal("a call is answered by one read")
			}
			n.answered(useful, now)
			now = now.Add(apart)
		}
	}
	call(100, 200*time.Millisecond, false)
	if n.restless(now) {
		t.Fatal("five calls a second are borne")
	}
	now = now.Add(2 * uselessTerm)
	call(maxUseless, time.Millisecond, false)
	call(1, time.Millisecond, true)
	call(maxUseless, time.Millisecond, false)
	if n.restless(now) {
		t.Fatal("so few in a row are borne")
	}
	call(1, time.Millisecond, false)
	if !n.restless(now) || n.restless(now.Add(uselessTerm)) {
		t.Fatal("eleven in a row are too much, for a second")
	}
}
