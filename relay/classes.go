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

// pacers pace each class of topics.
type pacers struct {
	classes classes
	each    []*pacer
}

func newPacers(cfg Config) *pacers {
	p := &pacers{classes: newClasses(cfg.Topics)}
	for _, r := range cfg.Topics {
		c := cfg
		setDefault(&r.Interval, cfg.Interval)
		setDefault(&r.Batch, cfg.Batch)
		c.Interval, c.Batch = r.Interval, r.Batch
		pacer := newPacer(c)
		pacer.patient = c.Interval > cfg.Interval
		p.each = append(p.each, pacer)
	}
	p.each = append(p.each, newPacer(cfg))
	return p
}

// due returns the classes whose poll is due. along says that a trip to the database is made anyway: whoever has no
// reason to wait comes with it.
func (p *pacers) due(now time.Time, along bool) (due classSet) {
	for i, c := range p.each {
		if c.due(now) || along && !c.patient {
			due |= 1 << i
		}
	}
	return due
}

// limit returns how many rows to ask for.
func (p *pacers) limit(set classSet) (limit int) {
	p.of(set, func(_ int, c *pacer) { limit = max(limit, c.limit) })
	return limit
}

// next returns when the next poll is due.
func (p *pacers) next() time.Time {
	next := p.each[0].next
	for _, c := range p.each[1:] {
		if c.next.Before(next) {
			next = c.next
		}
	}
	return next
}

// read takes in what a poll of the classes brought.
func (p *pacers) read(set classSet, events []*Event, more bool, now time.Time) {
	var rows [maxRules + 1]int
	for _, e := range events {
		rows[p.classes.of(e.Topic)]++
	}
	p.of(set, func(i int, c *pacer) { c.read(rows[i], more, now) })
}

// soon makes every poll due at once.
func (p *pacers) soon() {
	for _, c := range p.each {
		c.soon()
	}
}

// stir makes polls quick for a while, as if events had come.
func (p *pacers) stir(now time.Time) {
	for _, c := range p.each {
		c.stir(now)
	}
}

// restart begins with small reads again.
func (p *pacers) restart() {
	for _, c := range p.each {
		c.limit = c.batch
	}
}

// postpone makes no poll due before the time.
func (p *pacers) postpone(until time.Time) {
	for _, c := range p.each {
		if c.next.Before(until) {
			c.next = until
		}
	}
}

func (p *pacers) of(set classSet, do func(int, *pacer)) {
	for i, c := range p.each {
		if set.has(i) {
			do(i, c)
		}
	}
}
