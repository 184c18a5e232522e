package main

import "time"

// clock knows how long measurements take.
type clock struct {
	began time.Time
	turns []turn
	last  map[string]time.Duration // by scenario and subject
	sum   map[string]time.Duration // by scenario
	count map[string]int
}

func newClock(turns []turn) *clock {
	return &clock{time.Now(), turns, map[string]time.Duration{}, map[string]time.Duration{}, map[string]int{}}
}

func (c *clock) elapsed() time.Duration { return time.Since(c.began) }

func (c *clock) took(n int, d time.Duration) {
	t := c.turns[n]
	c.last[t.what()] = d
	for _, kind := range []string{t.scenario.Name(), ""} {
		c.sum[kind] += d
		c.count[kind]++
	}
}

func (c *clock) skip(n int) { c.last[c.turns[n].what()] = 0 }

// left guesses how long measurements from the nth on take: as long as the same one took last, or the mean of its
// scenario, or of all.
func (c *clock) left(n int) string {
	if c.count[""] == 0 {
		return "time left unknown"
	}
	var sum time.Duration
	for _, t := range c.turns[n:] {
		kind := ""
		if c.count[t.scenario.Name()] > 0 {
			kind = t.scenario.Name()
		}
		d, ok := c.last[t.what()]
		if !ok {
			d = c.sum[kind] / time.Duration(c.count[kind])
		}
		sum += d
	}
	return "about " + sum.Round(time.Minute/6).String() + " left"
}
