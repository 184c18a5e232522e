package relay

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestPatternMatch(t *testing.T) {
	for _, c := range []struct {
		pattern Pattern
		topic   string
		want    bool
	}{
		{"orders", "orders", true}, {"orders", "orders2", false}, {"*", "", true}, {"*", "a.b", true},
		{"order-service.*", "order-service.order.confirmed", true}, {"order-service.*", "order-service", false},
		{"*.dlq", "orders.dlq", true}, {"*.dlq", "orders.dlq.x", false},
		{"a*b*c", "abc", true}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "acb", false},
		{"a*a", "a", false}, {"**", "x", true}, {"a.c", "abc", false},
	} {
		if got := c.pattern.Match(c.topic); got != c.want {
			t.Errorf("%q picks %q: %v", c.pattern, c.topic, got)
		}
	}
}

// On short random patterns, all three questions agree with trying every topic.
func TestPatternsAgreeWithEveryTopic(t *testing.T) {
	topics := []string{""}
	for from := 0; len(topics) < 1+2+4+8+16+32+64; from++ {
		topics = append(topics, topics[from]+"a", topics[from]+"b")
	}
	word := func() string {
		var b strings.Builder
		for range rand.IntN(5) {
			b.WriteByte("ab*"[rand.IntN(3)])
		}
		return b.String()
	}
	for range 2000 {
		p, q := Pattern(word()), Pattern(word())
		regular := regexp.MustCompile("^" + strings.ReplaceAll(string(p), "*", ".*") + "$")
		both, onlyQ := false, false
		for _, topic := range topics {
			if p.Match(topic) != regular.MatchString(topic) {
				t.Fatalf("%q picks %q: %v", p, topic, p.Match(topic))
			}
			both = both || p.Match(topic) && q.Match(topic)
			onlyQ = onlyQ || q.Match(topic) && !p.Match(topic)
		}
		if p.Overlaps(q) != both || q.Overlaps(p) != both {
			t.Fatalf("%q and %q overlap: %v, want %v", p, q, p.Overlaps(q), both)
		}
		if p.Covers(q) && onlyQ { // a cover that is not seen is possible only where the alphabet has no third letter
			t.Fatalf("%q covers %q, but does not pick all of it", p, q)
		}
	}
}

func TestPatternCheck(t *testing.T) {
	for _, bad := range []Pattern{"", "a b", "a/b", "ü", "a?", ".", "..", Pattern(strings.Repeat("a", 250))} {
		if bad.Check() == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, good := range []Pattern{"*", "a.B_c-9", "order-*.confirmed"} {
		if err := good.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestChoice(t *testing.T) {
	c := Choice{{"a.*", false}, {"a*", true}}
	for topic, want := range map[string]bool{"a.b": false, "ab": true, "b": false} {
		if c.Wants(topic) != want {
			t.Errorf("wants %q: %v", topic, !want)
		}
	}
	if !Choice(nil).Wants("b") {
		t.Error("no choice wants no topic")
	}
}
