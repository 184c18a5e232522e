package relay

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// exchangeTimeout bounds one round trip to the database. It is long, since the first read after a start may walk
	// over millions of dead index entries.
	exchangeTimeout = 60 * time.Second
	// openTimeout bounds connecting to the database and looking at the outbox.
	openTimeout = 10 * time.Second

	// horizonEvery is the pause between two looks at the writers; under load one is taken every horizonRows rows, but
	// not within horizonPause. A look takes all partitions of PostgreSQL's lock table for a moment.
	horizonEvery = time.Second
	horizonRows  = 1000
	horizonPause = 20 * time.Millisecond
)

// loop drives the flow in claim mode lanes: one goroutine that owns the flow, and at most one operation a server on its
// way at a time, each in a goroutine of its own.
//
//	          +--------------- exchange: settle chunk k, read chunk k+2
//	flow -----+
//	          +--------------- publish: chunk k+1
//
// The barrier is the chunk: the next is handed to Kafka only when every event of the one before has its outcome.
type loop struct {
	store     Store
	publisher Publisher
	cfg       Config
	log       *slog.Logger
	ledger    *ledger
	member    *member
	flow      *flow
	tenure    tenure
	drained   chan struct{} // of the latest tenure whose leaving lanes were drained

	session   Session
	opened    chan opened
	exchanged chan exchanged
	published chan []error
	opening   bool
	exchange  *exchanged // on its way
	flying    bool       // a chunk is with Kafka

	reopen    *backoff
	reopenAt  time.Time
	republish *backoff
	publishAt time.Time
	pacers    *pacers
	nap       nap
	lookAsked time.Time // when the latest look at the writers was asked for
	lookCame  time.Time
	liftedAt  time.Time
	caughtUp  bool // the latest read was of what had been held; the others have their turn
	catchUp   int  // rows of the next read of what was held
	orders    orders
	resettle  bool    // the settle on its way repeats one of unknown outcome
	foreign   foreign // by what we settle
	locked    foreign // by locks

	start     time.Time
	busySince atomic.Int64 // when the exchange on its way began, in nanoseconds after start; 0 for none
}

type opened struct {
	session Session
	err     error
}

// exchanged is an exchange with its read as it was asked, and what came of it.
type exchanged struct {
	Exchange
	read   *request
	asked  time.Time
	word   bool // the read answers a writer's word
	result Result
	err    error
}

func newLoop(r *Relay) *loop {
	return &loop{
		store: r.store, publisher: r.publisher, cfg: r.cfg, log: r.cfg.Logger, ledger: r.ledger, member: r.member,
		flow: newFlow(limits{r.cfg.Batch, r.cfg.BatchMax, r.cfg.Memory}, r.cfg.Order == OrderStrict,
			newClasses(r.cfg), r.publisher.Partition),
		opened: make(chan opened, 1), exchanged: make(chan exchanged, 1), published: make(chan []error, 1),
		reopen:    newBackoff(100*time.Millisecond, 3*time.Second),
		republish: newBackoff(100*time.Millisecond, 5*time.Second),
		pacers:    newPacers(r.cfg), catchUp: r.cfg.Batch, start: time.Now(),
		foreign: foreign{need: foreignSigns, grace: 2 * r.cfg.Lease},
		locked:  foreign{need: foreignLocks, grace: 2 * r.cfg.Lease},
	}
}

// alive tells whether the loop makes progress: it isn't stuck in the database. Waiting for Kafka is progress.
func (l *loop) alive(now time.Time) bool {
	since := l.busySince.Load()
	return since == 0 || now.Sub(l.start)-time.Duration(since) < l.cfg.Lease/2
}

// run works until take ends, then finishes what is in flight. When work ends it drops everything.
func (l *loop) run(take, work context.Context) error {
	ops, abandon := context.WithCancel(work)
	defer l.join()
	defer abandon()
	stopping, drain := take.Done(), (<-chan time.Time)(nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		l.followLanes()
		l.followOrders(now)
		if drain == nil {
			l.lift(now)
			l.publish(ops, now)
		}
		l.connect(ops, now)
		l.trade(ops, now, drain == nil)
		l.report()
		if drain != nil && l.flow.idle() && l.exchange == nil {
			return nil
		}
		timer.Reset(l.until(now))
		var err error
		select {
		case <-timer.C:
		case <-l.member.changed:
		case <-l.member.woken:
			if l.nap.wake() {
				l.pacers.wake()
			}
		case o := <-l.opened:
			err = l.open(o)
		case x := <-l.exchanged:
			err = l.settleExchange(x)
		case errs := <-l.published:
			l.settlePublish(errs)
		case answers := <-l.publisher.Answers():
			l.settleAnswers(answers)
		case <-stopping:
			stopping, drain = nil, time.After(l.cfg.DrainTimeout)
			l.flow.dropQueue()
			l.log.Info("relay drains", "in_flight", len(l.flow.sending)+len(l.flow.open))
		case <-drain:
			if l.flow.idle() {
				return nil // only a read is on its way
			}
			return ErrDrainTimeout
		case <-work.Done():
			return context.Cause(work)
		}
		if work.Err() != nil {
			return context.Cause(work) // the reason that ended it, not what its end did to an operation
		}
		if err != nil {
			return err
		}
	}
}

// join waits for the operations on their way; their context has ended.
func (l *loop) join() {
	if l.opening {
		if o := <-l.opened; o.session != nil {
			o.session.Close()
		}
	}
	if l.exchange != nil {
		<-l.exchanged
	}
	if l.flying {
		<-l.published
	}
	if l.session != nil {
		l.session.Close()
	}
}

// lift looks again at topics that can't be used, at most once a second however many there are.
func (l *loop) lift(now time.Time) {
	if now.Sub(l.liftedAt) >= time.Second && l.flow.lift(now) {
		l.liftedAt = now
	}
}

// until is how long the loop may sleep.
func (l *loop) until(now time.Time) time.Duration {
	wake := now.Add(time.Second)
	for _, at := range []time.Time{l.pacers.next(), l.publishAt, l.reopenAt} {
		if at.After(now) && at.Before(wake) {
			wake = at
		}
	}
	return wake.Sub(now)
}

// followLanes takes over what the member may work on.
func (l *loop) followLanes() {
	t := l.member.current()
	same := t.id == l.tenure.id && t.generation == l.tenure.generation
	if !same {
		l.flow.setLanes(LaneSet{})
		l.flow.group = t.wanted
	}
	if !same || string(t.lanes.bits) != string(l.tenure.lanes.bits) {
		if t.lanes.Len() > l.tenure.lanes.Len() || !same {
			l.pacers.soon()
			l.foreign.pardon(time.Now())
			l.locked.pardon(time.Now())
			l.orders.doubt(l.flow, time.Now())
		}
		l.flow.setLanes(t.lanes)
	}
	l.tenure = t
	view, at := l.member.latest()
	l.ledger.clock(view.Now, at)
	if at.After(l.lookCame) && l.flow.sequence(view.Last) {
		l.log.Warn(sequenceBackwards, "last", view.Last)
		l.pacers.soon()
	}
	if t.drained != nil && t.drained != l.drained && !l.flow.carries(t.leaving) {
		l.drained = t.drained
		close(t.drained)
	}
}

// publish hands the next chunk to Kafka, if none is there.
func (l *loop) publish(ctx context.Context, now time.Time) {
	if l.flying || len(l.flow.queue) == 0 || now.Before(l.publishAt) || !l.member.maySend(now) {
		return
	}
	chunk := l.flow.nextChunk()
	l.flying = true
	l.ledger.handedOver(now)
	go func() { l.published <- l.publisher.Publish(ctx, chunk) }()
}

// settlePublish takes the outcomes of a chunk in.
func (l *loop) settlePublish(errs []error) {
	l.flying = false
	l.ledger.count(l.flow.sending, errs)
	l.logEvents(l.flow.sending, errs)
	now := time.Now()
	out := l.flow.published(errs, now)
	l.ledger.acknowledged(out.acked, out.outage)
	l.takeOutcome(out, now)
}

// settleAnswers takes in the outcomes of what a chunk had left unanswered.
func (l *loop) settleAnswers(answers []Answer) {
	events, errs := make([]*Event, len(answers)), make([]error, len(answers))
	for i, a := range answers {
		events[i], errs[i] = a.Event, a.Err
	}
	l.ledger.count(events, errs)
	l.logEvents(events, errs)
	now := time.Now()
	if len(answers) > 0 {
		l.log.Info("a partition has answered, its events flow again", "topic", answers[0].Event.Topic,
			"events", len(answers))
	}
	l.takeOutcome(l.flow.answered(answers, now), now)
}

func (l *loop) takeOutcome(out outcome, now time.Time) {
	if out.acked > 0 {
		l.republish.reset()
	}
	if out.outage != nil {
		l.publishAt = now.Add(l.republish.pause()) // sent again, in the same order
	}
	logFew(l.log, out.held, "topics and partitions that wait", func(h *hold) { h.log(l.log, now) })
	logRefused(l.log, l.flow.refused[len(l.flow.refused)-len(out.refused):])
	for _, h := range out.mended[:min(len(out.mended), 5)] {
		l.log.Info("events flow again", "topic", h.scope.Topic, "tries", h.tries)
	}
}

func (l *loop) logEvents(events []*Event, errs []error) {
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i, e := range events {
		l.log.Debug("event sent", "id", e.ID, "event_id", e.EventID, "topic", e.Topic, "error", errs[i])
	}
}

// report brings the ledger up to date.
func (l *loop) report() {
	oldest, _ := l.flow.oldest()
	l.ledger.waiting(oldest, l.flow.failing.len(), l.flow.sweepFound, l.flow.waiting())
}
