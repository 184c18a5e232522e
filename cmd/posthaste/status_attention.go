package main

import (
	"fmt"
	"slices"
	"time"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

// limits say from where on a backlog needs a person.
type limits struct {
	maxBacklog int           // -1: none
	maxAge     time.Duration // 0: none
}

// unattended is how long events may wait without a living relay. It covers the restart of a relay, and one that is no
// member, as long as it keeps up.
const unattended = 10 * time.Second

// needsPerson ends a command with its own exit status when all has been said.
type needsPerson struct{}

func (needsPerson) Error() string { return "something needs a person" }

// attention says what needs a person, most urgent first.
func (l limits) attention(s *postgres.Status) []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, p := range s.Problems {
		say("%s; %s", p.Cause, p.Fix)
	}
	if s.Backlog == nil && len(s.Problems) == 0 {
		say("the backlog can't be counted: %s", s.Uncounted)
	}
	if b := s.Backlog; b != nil {
		age := s.Now.Sub(b.Oldest)
		for _, r := range s.Relays {
			if r.Alive() == 0 && b.Count > 0 && age > unattended {
				say("events wait and no relay%s is alive; run: posthaste relay%s", ofGroup(r), groupFlag(r))
			}
		}
		if l.maxBacklog >= 0 && b.Count > l.maxBacklog {
			say("%s unpublished events, more than %s", number(b.Count), number(l.maxBacklog))
		}
		if l.maxAge > 0 && b.Count > 0 && age > l.maxAge {
			say("the oldest unpublished event is %s old, more than %s", span(age), span(l.maxAge))
		}
	}
	for _, r := range s.Relays {
		for _, m := range r.Members {
			if m.State == postgres.MemberAlive && m.Trouble != "" {
				say("relay %s is not ready: %s", m.Name, m.Trouble)
			}
			if m.State == postgres.MemberAlive && m.Held > 0 {
				say("%s in relay %s after a failure of their own; posthaste holds list names them", held(m.Held),
					m.Name)
			}
		}
	}
	return append(list, attentionToParked(s)...)
}

// pausesNamed is how many pauses are told one by one.
const pausesNamed = 3

// attentionToParked says what waits until a person lets it go.
func attentionToParked(s *postgres.Status) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if p := s.Parked; p != nil {
		if n := p.Count - p.Requested; n > 0 {
			say("%s parked until somebody says what becomes of %s: posthaste parked list, retry or discard",
				atLeast(n, p.Capped, "event is", "events are"), choose(n == 1, "it", "them"))
		}
		alive := func(r postgres.Relays) bool { return r.Alive() > 0 }
		if p.Requested > 0 && !slices.ContainsFunc(s.Relays, alive) {
			say("%s to be retried or discarded, and no relay is alive to do it; run: posthaste relay",
				atLeast(p.Requested, false, "parked event is", "parked events are"))
		}
	}
	for i, p := range s.Pauses {
		if i == pausesNamed {
			say("%s; posthaste holds list shows them", atLeast(len(s.Pauses)-i, false, "more pause", "more pauses"))
			break
		}
		say("%s; when it may go on: posthaste resume --id %d", pausedText(p, s.Now), p.ID)
	}
	return list
}

// pausedText is a pause as a sentence.
func pausedText(p postgres.Pause, now time.Time) string {
	return fmt.Sprintf("%s is paused for %s by %s: %s", postgres.ScopeText(p.Scope), span(now.Sub(p.At)),
		term.Plain(p.By), term.Plain(p.Reason))
}

// atLeast is a number with its noun.
func atLeast(n int, more bool, one, many string) string {
	text := number(n) + " " + choose(n == 1 && !more, one, many)
	if more {
		return "more than " + text
	}
	return text
}

func choose(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func ofGroup(r postgres.Relays) string {
	if r.Group == "" {
		return ""
	}
	return " of group " + r.Group
}

func groupFlag(r postgres.Relays) string {
	if r.Group == "" {
		return ""
	}
	return " --group " + r.Group
}

func held(n int) string {
	if n == 1 {
		return "1 topic or key waits"
	}
	return number(n) + " topics or keys wait"
}
