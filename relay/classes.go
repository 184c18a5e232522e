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
	// OnRefused is as Config.OnRefused, which it defaults to.
	OnRefused RefusedPolicy
}

// classes part the topics by the rule that counts for them; the last class, the only one without a rule, is that of all
// other topics.
type classes struct {
	rules  []TopicRule
	others RefusedPolicy
}

func newClasses(cfg Config) classes { return classes{cfg.Topics, cfg.OnRefused} }

func (c classes) count() int { return len(c.rules) + 1 }

// of returns the class of a topic.
func (c classes) of(topic string) int {
	for i, r := range c.rules {
		if r.Match.Match(topic) {
			return i
		}
	}
	return len(c.rules)
}

// refused returns what becomes of the events of a class that are refused.
func (c classes) refused(class int) RefusedPolicy {
	if class < len(c.rules) && c.rules[class].OnRefused != "" {
		return c.rules[class].OnRefused
	}
	return c.others
}

// all is the set of all classes.
func (c classes) all() classSet { return 1<<c.count() - 1 }

// choice wants the topics of the classes in the set.
func (c classes) choice(set classSet) Choice {
	if set == c.all() {
		return nil
	}
	var choice Choice
	for i, r := range c.rules {
		choice = append(choice, Case{r.Match, set.has(i)})
	}
	return append(choice, Case{"*", set.has(len(c.rules))})
}

// maxRules is what a classSet has room for, beside the class of all other topics.
const maxRules = 31

// classSet is a set of classes.
type classSet uint32

func (s classSet) has(class int) bool { return s&(1<<class) != 0 }

// RefusedPolicy says what waits with an event that Kafka refuses for itself, until an operator has decided.
type RefusedPolicy string

// The policies. The first is the default.
const (
	// HoldKey makes the later events of its key in its topic wait: their order is kept.
	HoldKey RefusedPolicy = "hold-key"
	// HoldAggregate makes the later events of its aggregate wait, in all topics, as far as they have its partition key.
	HoldAggregate RefusedPolicy = "hold-aggregate"
	// Skip lets everything else flow. The order of its key is given up: sent on an operator's word, it comes late.
	Skip RefusedPolicy = "skip"
)

// scope returns how wide the event makes others wait.
func (p RefusedPolicy) scope(e *Event) ScopeKind {
	switch {
	case p == Skip:
		return ScopeEvent
	case p == HoldAggregate && e.AggregateID != "":
		return ScopeAggregate
	}
	return ScopeKey
}

func (p RefusedPolicy) known() bool { return p == HoldKey || p == HoldAggregate || p == Skip }
