package relay

import "time"

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

	limit int       // rows of the next read
	next  time.Time // when to poll
	quick time.Duration
	last  time.Time // when events came last
}

func newPacer(cfg Config) *pacer {
	return &pacer{interval: cfg.Interval, batch: cfg.Batch, batchMax: cfg.BatchMax, limit: cfg.Batch, quick: quickPoll}
}

func (p *pacer) due(now time.Time) bool { return !now.Before(p.next) }

// soon makes the next poll due at once.
func (p *pacer) soon() { p.next = time.Time{} }

// read takes in how many rows a poll brought and whether there are more. Under backlog the next poll is due at once
// and asks for more, up to the maximum; while events come polls are quick.
func (p *pacer) read(rows int, more bool, now time.Time) {
	if rows > 0 {
		p.last, p.quick = now, quickPoll
	}
	switch {
	case more:
		p.limit = min(4*p.limit, p.batchMax)
		p.next = now
	case now.Sub(p.last) < lively && !p.patient:
		p.limit = max(p.limit/2, p.batch)
		p.next = now.Add(min(p.quick, p.interval))
		p.quick = min(p.quick*5/4, quickPollMax)
	default:
		p.limit = p.batch
		p.next = now.Add(p.interval)
	}
}

// stir makes polls quick for a while, as if events had come.
func (p *pacer) stir(now time.Time) { p.last = now }
