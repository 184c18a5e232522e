package relay

import (
	"errors"
	"fmt"
	"strings"
)

// Pattern picks topics by name: * stands for any run of characters, dots and nothing too; everything else stands for
// itself.
type Pattern string

// Check refuses a pattern that no legal topic name can match. Kafka takes names of up to 249 letters, digits, dots,
// underscores and dashes (org.apache.kafka.common.internals.Topic).
func (p Pattern) Check() error {
	const signs = "._-*"
	if p == "" {
		return errors.New("a topic pattern can't be empty; * matches every topic")
	}
	if p == "." || p == ".." {
		return fmt.Errorf("topic pattern %q: no topic has this name", string(p))
	}
	for _, c := range p {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune(signs, c) {
			return fmt.Errorf("topic pattern %q: no topic has %q in its name", string(p), c)
		}
	}
	if n := len(strings.ReplaceAll(string(p), "*", "")); n > 249 {
		return fmt.Errorf("topic pattern %q: no topic's name is longer than 249 characters", string(p))
	}
	return nil
}

// Match tells whether the pattern picks the topic.
func (p Pattern) Match(topic string) bool {
	head, tail, wild := strings.Cut(string(p), "*")
	if !wild {
		return head == topic
	}
	rest, ok := strings.CutPrefix(topic, head)
	for ok && wild {
		head, tail, wild = strings.Cut(tail, "*")
		if !wild {
			return strings.HasSuffix(rest, head) // the last piece stands at the end
		}
		_, rest, ok = strings.Cut(rest, head) // a piece between two stars: the first place that fits leaves most
	}
	return false
}

// Covers tells whether every topic that other picks is picked by p as well. It reads other's stars as a character that
// only a star matches.
func (p Pattern) Covers(other Pattern) bool { return p.Match(string(other)) }

// Overlaps tells whether some topic is picked by both.
func (p Pattern) Overlaps(other Pattern) bool {
	// fits[j] tells it of what is left of p, from the end on, and of other[j:].
	fits := make([]bool, len(other)+2)
	for i := len(p); i >= 0; i-- {
		next := make([]bool, len(other)+2)
		for j := len(other); j >= 0; j-- {
			pEnds, otherEnds := i == len(p), j == len(other)
			switch {
			case pEnds && otherEnds:
				next[j] = true
			case !pEnds && p[i] == '*', !otherEnds && other[j] == '*':
				// The star ends here, or takes one more character of the other side.
				next[j] = !pEnds && fits[j] || !otherEnds && next[j+1]
			case !pEnds && !otherEnds && p[i] == other[j]:
				next[j] = fits[j+1]
			}
		}
		fits = next
	}
	return fits[0]
}

// Choice says which topics are wanted: the first case whose pattern picks the topic decides, and one that no case picks
// is not wanted. Without any case all are.
type Choice []Case

// Case is one line of a Choice.
type Case struct {
	Match Pattern
	Want  bool
}

// Wants tells whether the topic is wanted.
func (c Choice) Wants(topic string) bool {
	for _, k := range c {
		if k.Match.Match(topic) {
			return k.Want
		}
	}
	return len(c) == 0
}
