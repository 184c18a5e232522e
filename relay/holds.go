package relay

import (
	"log/slog"
	"time"
)

// hold makes the events of a scope wait. It lives in memory: the rows stay unpublished in the table.
type hold struct {
	scope Scope

	// floor is an id below every row that the hold keeps from being read. Reads of the hold's own begin there when it
	// is lifted. kept is one below those that had been read when they were found to wait.
	floor int64
	kept  int64
	since time.Time // created_at of the first event that waits, for the age of the oldest
	begun time.Time
	err   error
	tries int
	until time.Time // when it is lifted to look again; zero where something else ends it
	pause int       // the operator's word that it stands for
}

// log tells that the hold was made.
func (h *hold) log(log *slog.Logger, now time.Time) {
	switch log = log.With("topic", h.scope.Topic, "reason", h.err); h.scope.Kind {
	case ScopeTopic:
		log.Error("the events of a topic wait; all others flow", "tries", h.tries,
			"next_try", h.until.Sub(now).Round(time.Millisecond).String())
	case ScopePartition:
		log.Error("the events of a partition wait until it answers; all others flow", "partition", h.scope.Partition)
	}
}

// logFew tells of each of the first few things, and how many there are more.
func logFew[T any](log *slog.Logger, things []T, what string, tell func(T)) {
	const few = 5
	for _, t := range things[:min(few, len(things))] {
		tell(t)
	}
	if more := len(things) - few; more > 0 {
		log.Error("more of them: "+what, "more", more)
	}
}

// holds are holds by their scope.
type holds struct{ scopes[*hold] }

func newHolds(partition func(topic, key string) int32) holds {
	return holds{newScopes[*hold](partition)}
}

func (hs *holds) add(h *hold)  { hs.put(h.scope, h) }
func (hs *holds) drop(h *hold) { hs.remove(h.scope) }
func (hs *holds) empty() bool  { return hs.len() == 0 }
func (hs *holds) covers(e *Event) bool {
	_, ok := hs.covering(e)
	return ok
}

// keep notes that the hold keeps a row from being read.
func (h *hold) keep(e *Event) {
	h.kept = min(h.kept, e.ID-1)
	h.floor = min(h.floor, h.kept)
	if h.since.IsZero() || e.CreatedAt.Before(h.since) {
		h.since = e.CreatedAt
	}
}

// Pauses before a topic is looked at again: they double from the first to the last.
const (
	topicPause    = time.Second
	topicPauseMax = 30 * time.Second
)

// begin sets when the hold of a topic is lifted. One that was lifted before in vain stands longer.
func (h *hold) begin(lifted *holds, now time.Time) {
	h.tries, h.begun = 1, now
	if before := lifted.all[h.scope]; before != nil {
		h.tries = before.tries + 1
		lifted.drop(before)
	}
	pause := topicPause
	for i := 1; i < h.tries && pause < topicPauseMax; i++ {
		pause *= 2
	}
	h.until = now.Add(min(pause, topicPauseMax))
}

// forgetTries is how long after it was lifted the tries of a hold are remembered while none of its events comes.
const forgetTries = time.Hour

// lift moves the holds whose time has come to those that were lifted and not yet proven, and returns them.
func (hs *holds) lift(now time.Time, lifted *holds) []*hold {
	for _, h := range lifted.due(now.Add(-forgetTries)) {
		lifted.drop(h) // its rows are gone
	}
	due := hs.due(now)
	for _, h := range due {
		hs.drop(h)
		lifted.add(h)
	}
	return due
}

// prove forgets the tries of a lifted hold and returns it, or nil: an event of its scope was acknowledged.
func (hs *holds) prove(e *Event) *hold {
	h, ok := hs.covering(e)
	if ok {
		hs.drop(h)
	}
	return h
}

// due returns the holds whose time to look again has come.
func (hs *holds) due(now time.Time) (due []*hold) {
	for _, h := range hs.all {
		if !h.until.IsZero() && !now.Before(h.until) {
			due = append(due, h)
		}
	}
	return due
}

// look makes the hold of a topic due at once, if there is one.
func (hs *holds) look(topic string, now time.Time) {
	if h := hs.all[Scope{Kind: ScopeTopic, Topic: topic}]; h != nil {
		h.until = now
	}
}
