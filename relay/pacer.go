package relay

import (
	"slices"
	"time"
)

const (
	// lively is how long after an event polls come every quickPoll to quickPollMax.
	lively       = time.Second
	quickPoll    = 2 * time.Millisecond
	quickPollMax = 10 * time.Millisecond
)

// pacer says when to poll next and how many rows to ask for.
type pacer struct {
	interval        time.Duration
	batch, batchMax int
	patient         bool // the interval is kept while events come
	wary            bool // writers are at work who will wake nobody

	sweepInterval time.Duration

	limit int       // rows of the next read
	next  time.Time // when to poll
	quick time.Duration
	last  time.Time // when events came last
	sweep time.Time // when to read from the beginning
	swept time.Time // when that was done last
}

func newPacer(cfg Config) *pacer {
	return &pacer{interval: cfg.Interval, batch: cfg.Batch, batchMax: cfg.BatchMax, sweepInterval: cfg.SweepInterval,
		limit: cfg.Batch, quick: quickPoll, sweep: time.Now().Add(sweepPause), swept: time.Now()}
}

func (p *pacer) due(now time.Time) bool { return !now.Before(p.next) }

// soon makes the next poll due at once.
func (p *pacer) soon() { p.next = time.Time{} }

// read takes in how many rows a poll brought and whether there are more. Under backlog the next poll is due at once
// and asks for more, up to the maximum; while events come polls are quick. The last of these was asked for when no
// event had come for a while, so that it could tell writers that the relay sleeps.
func (p *pacer) read(rows int, more bool, asked, now time.Time) {
	if rows > 0 {
		p.last, p.quick = now, quickPoll
	}
	switch {
	case more:
		p.limit = min(4*p.limit, p.batchMax)
		p.next = now
	case asked.Sub(p.last) < lively && !p.patient:
		p.limit = max(p.limit/2, p.batch)
		p.next = now.Add(min(p.quick, p.interval))
		p.quick = min(p.quick*5/4, quickPollMax)
	case p.wary && !p.patient:
		p.limit = p.batch
		p.next = now.Add(min(p.quick, p.interval))
		p.quick = min(p.quick*5/4, p.interval)
	default:
		p.limit = p.batch
		p.next = now.Add(p.interval)
	}
}

// stir makes polls quick for a while, as if events had come.
func (p *pacer) stir(now time.Time) { p.last = now }

// Sweeps take at most one part in sweepShare of the time, with sweepPause between two, and come once in the sweep
// interval at least. They are cheap where little waits and little is dead, and what a sweep alone finds, a row whose id
// was given by hand, or whose mark was lost, need not wait long then.
const (
	sweepShare = 200
	sweepPause = time.Second
)

// took takes in how long a read took. A long one, as the first after a start may be, says what a sweep would cost.
func (p *pacer) took(d time.Duration, sweep bool, now time.Time) {
	const long = sweepPause / 4
	if sweep {
		p.swept, p.sweep = now, now.Add(sweepPause)
	}
	if next := now.Add(sweepShare * d); (sweep || d > long) && next.After(p.sweep) {
		p.sweep = next
	}
	if last := p.swept.Add(p.sweepInterval); p.sweep.After(last) {
		p.sweep = last
	}
}

// pacers pace each class of topics.
type pacers struct {
	classes classes
	each    []*pacer
}

func newPacers(cfg Config) *pacers {
	p := &pacers{classes: newClasses(cfg)}
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

// sweepDue tells whether a class of the set is to be read from the beginning.
func (p *pacers) sweepDue(set classSet, now time.Time) (due bool) {
	p.of(set, func(_ int, c *pacer) { due = due || !now.Before(c.sweep) })
	return due
}

// took takes in how long a read of the classes took.
func (p *pacers) took(set classSet, d time.Duration, sweep bool, now time.Time) {
	p.of(set, func(_ int, c *pacer) { c.took(d, sweep, now) })
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

// read takes in what a poll of the classes brought; the events know their class.
func (p *pacers) read(set classSet, events []*Event, more bool, asked, now time.Time) {
	var rows [maxRules + 1]int
	for _, e := range events {
		rows[e.class]++
	}
	p.of(set, func(i int, c *pacer) { c.read(rows[i], more, asked, now) })
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

// wake makes the polls due at once that have no reason to wait.
func (p *pacers) wake() {
	for _, c := range p.each {
		if !c.patient {
			c.soon()
		}
	}
}

// quiet tells whether no class has had events lately.
func (p *pacers) quiet(now time.Time) bool {
	return !slices.ContainsFunc(p.each, func(c *pacer) bool { return !c.patient && now.Sub(c.last) < lively })
}

// wary takes in whether writers are at work who will wake nobody.
func (p *pacers) wary(yes bool) {
	for _, c := range p.each {
		c.wary = yes
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
