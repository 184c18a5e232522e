package relay

import (
	"log/slog"
	"time"
)

// hold makes the events of a topic, or of one key of it, wait after a failure that is theirs alone. It lives in
// memory: the rows stay unpublished in the table, and another relay meets the failure for itself.
type hold struct {
	topic, key string
	wholeTopic bool

	// floor is an id below every row that the hold keeps from being read; the flow's own floor goes back to it when the
	// hold is lifted.
	floor int64
	since time.Time // created_at of the first event that waits, for the age of the oldest
	err   error
	tries int
	until time.Time // when it is lifted to look again
}

// newHold makes the event's topic or key wait, for the first time; begin says until when.
func newHold(e *Event, class Class, err error) *hold {
	return &hold{topic: e.Topic, key: e.Key, wholeTopic: class == TopicUnusable, since: e.CreatedAt, err: err, tries: 1}
}

// log tells that the hold was made.
func (h *hold) log(log *slog.Logger, now time.Time) {
	log = log.With("topic", h.topic, "tries", h.tries, "next_try", h.until.Sub(now).Round(time.Millisecond).String(),
		"reason", h.err)
	if h.wholeTopic {
		log.Error("the events of a topic wait; all others flow")
	} else {
		log.Error("an event is refused, its key waits; all others flow", "key", h.key)
	}
}

// logHolds tells of new holds, of many only the first few one by one.
func logHolds(log *slog.Logger, made []*hold, now time.Time) {
	const few = 5
	for _, h := range made[:min(few, len(made))] {
		h.log(log, now)
	}
	if more := len(made) - few; more > 0 {
		log.Error("more topics and keys wait", "more", more)
	}
}

// holds are all that a relay has, by topic and by key.
type holds struct {
	topics map[string]*hold
	keys   map[TopicKey]*hold
}

func newHolds() holds {
	return holds{topics: make(map[string]*hold), keys: make(map[TopicKey]*hold)}
}

func (hs holds) empty() bool { return hs.len() == 0 }

// covering returns the hold that the event waits behind, or nil.
func (hs holds) covering(e *Event) *hold {
	if hs.empty() {
		return nil
	}
	if h := hs.topics[e.Topic]; h != nil {
		return h
	}
	return hs.keys[TopicKey{e.Topic, e.Key}]
}

// like returns the hold of the same topic or key, or nil.
func (hs holds) like(h *hold) *hold {
	if h.wholeTopic {
		return hs.topics[h.topic]
	}
	return hs.keys[TopicKey{h.topic, h.key}]
}

func (hs holds) len() int { return len(hs.topics) + len(hs.keys) }

func (hs holds) add(h *hold) {
	if h.wholeTopic {
		hs.topics[h.topic] = h
	} else {
		hs.keys[TopicKey{h.topic, h.key}] = h
	}
}

func (hs holds) remove(h *hold) {
	if h.wholeTopic {
		delete(hs.topics, h.topic)
	} else {
		delete(hs.keys, TopicKey{h.topic, h.key})
	}
}

func (hs holds) each(f func(*hold)) {
	for _, h := range hs.topics {
		f(h)
	}
	for _, h := range hs.keys {
		f(h)
	}
}

// exclude writes into the read what must not be read.
func (hs holds) exclude(r *Read) {
	for topic := range hs.topics {
		r.Held = append(r.Held, Scope{Kind: ScopeTopic, Topic: topic})
	}
	for key := range hs.keys {
		r.Held = append(r.Held, Scope{Kind: ScopeKey, Topic: key.Topic, Key: key.Key})
	}
}

// Pauses before a hold is lifted to look again: they double from the first to the last.
const (
	topicPause    = time.Second
	topicPauseMax = 30 * time.Second
	keyPause      = 30 * time.Second
	keyPauseMax   = 10 * time.Minute
)

// maxKeyHolds bounds the keys that wait one by one: every read names them all. When so many do, the next failure makes
// its whole topic wait.
const maxKeyHolds = 10_000

// pause returns how long a hold stands that failed so many times in a row.
func (h *hold) pause() time.Duration {
	first, last := keyPause, keyPauseMax
	if h.wholeTopic {
		first, last = topicPause, topicPauseMax
	}
	for range h.tries - 1 {
		if first *= 2; first >= last {
			return last
		}
	}
	return first
}

// begin sets when the hold is lifted. One that was lifted before in vain stands longer.
func (h *hold) begin(lifted holds, now time.Time) {
	if before := lifted.like(h); before != nil {
		h.tries = before.tries + 1
		lifted.remove(before)
	}
	h.until = now.Add(h.pause())
}

// forgetTries is how long after it was lifted the tries of a hold are remembered while none of its events comes.
const forgetTries = time.Hour

// lift moves the holds whose time has come to those that were lifted and not yet proven, and returns them.
func (hs holds) lift(now time.Time, lifted holds) []*hold {
	for _, h := range lifted.due(now.Add(-forgetTries)) {
		lifted.remove(h) // its rows are gone
	}
	due := hs.due(now)
	for _, h := range due {
		hs.remove(h)
		lifted.add(h)
	}
	return due
}

// prove forgets the tries of a lifted hold and returns it, or nil: an event of its scope was acknowledged.
func (hs holds) prove(e *Event) *hold {
	h := hs.covering(e)
	if h != nil {
		hs.remove(h)
	}
	return h
}

// due returns the holds whose time to look again has come.
func (hs holds) due(now time.Time) []*hold {
	var due []*hold
	if !hs.empty() {
		hs.each(func(h *hold) {
			if !now.Before(h.until) {
				due = append(due, h)
			}
		})
	}
	return due
}
