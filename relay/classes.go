package relay

import "time"

// TopicRule gives the topics that a pattern picks settings of their own. Of several rules the first that picks a topic
// counts; a topic that none picks has the relay's settings.
type TopicRule struct {
	// Match picks the topics.
	Match Pattern
	// Interval is as Config.Interval, which it defaults to. One longer than Config.Interval is kept even while events
	// come: they are collected, and sent together once an interval.
	Interval time.Duration
	// Batch is as Config.Batch, which it defaults to.
	Batch int
}

// classes part the topics by the rule that counts for them; the last class, the only one without rules, is that of all
// other topics.
type classes []Pattern

func newClasses(rules []TopicRule) classes {
	var c classes
	for _, r := range rules {
		c = append(c, r.Match)
	}
	return c
}

func (c classes) count() int { return len(c) + 1 }

// of returns the class of a topic.
func (c classes) of(topic string) int {
	for i, p := range c {
		if p.Match(topic) {
			return i
		}
	}
	return len(c)
}

// all is the set of all classes.
func (c classes) all() classSet { return 1<<c.count() - 1 }

// choice wants the topics of the classes in the set.
func (c classes) choice(set classSet) Choice {
	if set == c.all() {
		return nil
	}
	var choice Choice
	for i, p := range c {
		choice = append(choice, Case{p, set.has(i)})
	}
	return append(choice, Case{"*", set.has(len(c))})
}

// maxRules is what a classSet has room for, beside the class of all other topics.
const maxRules = 31

// classSet is a set of classes.
type classSet uint32

func (s classSet) has(class int) bool { return s&(1<<class) != 0 }
