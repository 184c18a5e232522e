package relay

import (
	"context"
	"log/slog"
	"math"
	"time"
)

// claimLoop is claim mode skip-locked, the algorithm that hand-written relays use: lock a batch, hand it over, mark
// what was acknowledged, commit. It shares the publisher and its failure classes with the lanes, and nothing else: no
// membership, no pipeline, no order across relays.
type claimLoop struct {
	store     Store
	publisher Publisher
	cfg       Config
	log       *slog.Logger
	ledger    *ledger
	pacers    *pacers
	failing   holds // topics that can't be used
	lifted    holds // of them those that are looked at again, not yet proven
	late      done  // known after their claim had ended
	orders    Orders
	ordersAt  time.Time
	looks     looks
	attempts  map[int64]int // of the events that were released last
}

// done is what is to be written back of a claim.
type done struct {
	acked []Ref
	park  []Parking
}

func (d done) empty() bool { return len(d.acked)+len(d.park) == 0 }

func newClaimLoop(r *Relay) *claimLoop {
	return &claimLoop{store: r.store, publisher: r.publisher, cfg: r.cfg, log: r.cfg.Logger, ledger: r.ledger,
		pacers: newPacers(r.cfg), failing: newHolds(nil), lifted: newHolds(nil)}
}

// run works until take ends and the claim in hand is settled. When work ends it drops everything.
func (c *claimLoop) run(take, work context.Context) error {
	ops, abandon := context.WithCancel(work)
	defer abandon()
	stop := context.AfterFunc(take, func() {
		t := time.AfterFunc(c.cfg.DrainTimeout, abandon)
		context.AfterFunc(work, func() { t.Stop() })
	})
	defer stop()
	pause := newBackoff(100*time.Millisecond, 3*time.Second)
	for take.Err() == nil && work.Err() == nil {
		err := c.serve(take, ops, pause.reset)
		c.ledger.databaseAnswered(err)
		if permanent(err) {
			return err
		}
		if err != nil {
			pause.wait(take)
		}
	}
	if err := c.settleLate(ops); err != nil {
		c.log.Warn("could not mark what Kafka acknowledged late; it will be sent again", "events", len(c.late.acked),
			"reason", err)
	}
	if ops.Err() != nil && work.Err() == nil {
		return ErrDrainTimeout
	}
	return nil
}

// settleLate marks, at the stop, what was acknowledged after its claim had ended.
func (c *claimLoop) settleLate(ctx context.Context) error {
	if c.late.empty() {
		return nil
	}
	octx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	session, err := c.store.Open(octx)
	if err != nil {
		return err
	}
	defer session.Close()
	return c.mark(octx, session)
}

// mark settles the late ones.
func (c *claimLoop) mark(ctx context.Context, session Session) error {
	if c.late.empty() {
		return nil
	}
	err := bounded(ctx, func(ctx context.Context) error {
		_, err := session.Exchange(ctx, Exchange{Settle: c.late.acked, Park: c.late.park})
		return err
	})
	if err == nil {
		c.late = done{}
	}
	return err
}

// bounded does one operation of the database; Kafka's time has bounds of its own.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	return do(ctx)
}

// serve works on one database session until take ends or the session fails.
func (c *claimLoop) serve(take, ops context.Context, answered func()) error {
	octx, cancel := context.WithTimeout(take, openTimeout)
	defer cancel()
	session, err := c.store.Open(octx)
	if err != nil {
		return err
	}
	defer session.Close()
	answered()
	for take.Err() == nil {
		if err := c.round(ops, session); err != nil {
			return err
		}
		t := time.NewTimer(time.Until(c.pacers.next()))
		select {
		case <-t.C:
		case <-take.Done():
		}
		t.Stop()
	}
	return nil
}

// round claims, publishes and settles one batch.
func (c *claimLoop) round(ctx context.Context, session Session) error {
	if err := c.mark(ctx, session); err != nil {
		return err
	}
	now := time.Now()
	if err := c.follow(ctx, session, now); err != nil {
		return err
	}
	c.failing.lift(now, &c.lifted)
	due := c.pacers.due(now, false)
	read := Read{Above: math.MinInt64, UpTo: math.MaxInt64, Limit: c.pacers.limit(due), Bytes: c.cfg.Memory}
	if choice := c.pacers.classes.choice(due); choice != nil {
		read.Wanted = []Choice{choice}
	}
	c.exclude(&read)
	var claim Claim
	err := bounded(ctx, func(ctx context.Context) (err error) {
		claim, err = session.Claim(ctx, read)
		return err
	})
	if err != nil {
		return err
	}
	c.ledger.databaseAnswered(nil)
	c.ledger.read(false)
	events := claim.Events()
	for _, e := range events {
		e.class = c.pacers.classes.of(e.Topic)
	}
	c.report(claim)
	c.pacers.read(due, events, len(events) == read.Limit, now, time.Now())
	if len(events) == 0 {
		return bounded(ctx, claim.Release)
	}
	published := make(chan []error, 1)
	c.ledger.handedOver(time.Now())
	go func() { published <- c.publish(ctx, events) }()
	timeout := time.NewTimer(c.cfg.ClaimTimeout)
	defer timeout.Stop()
	select {
	case errs := <-published:
		done := c.outcome(events, errs)
		err := bounded(ctx, func(ctx context.Context) error { return claim.Settle(ctx, done.acked, done.park) })
		if err != nil {
			c.late = done
		}
		return err
	case <-timeout.C:
		c.log.Warn("Kafka was slower than the claim timeout; the rows are free for other relays and may be sent twice",
			"events", len(events), "claim_timeout", c.cfg.ClaimTimeout)
		err := bounded(ctx, claim.Release)
		c.late = c.outcome(events, <-published)
		return err
	}
}

// publish waits for the outcome of every event: rows are locked until then, or the claim's time is over.
func (c *claimLoop) publish(ctx context.Context, events []*Event) []error {
	errs := c.publisher.Publish(ctx, events)
	open := make(map[*Event]int)
	for i, err := range errs {
		if classOf(err) == Unanswered {
			open[events[i]] = i
		}
	}
	for len(open) > 0 {
		select {
		case answers := <-c.publisher.Answers():
			for _, a := range answers {
				if i, ok := open[a.Event]; ok {
					errs[i] = a.Err
					delete(open, a.Event)
				}
			}
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

// exclude leaves out of a read what waits. What is parked is looked for with every read: others may park too.
func (c *claimLoop) exclude(r *Read) {
	for scope := range c.failing.all {
		r.Held = append(r.Held, scope)
	}
	for _, p := range c.orders.Pauses {
		r.Held = append(r.Held, p.Scope)
	}
	r.Parked, r.ParkedUpTo = []ScopeKind{ScopeKey, ScopeAggregate, ScopeEvent}, math.MaxInt64
}

// follow reads the operators' words now and then, and carries out what they want done with parked events.
func (c *claimLoop) follow(ctx context.Context, session Session, now time.Time) error {
	if now.Sub(c.ordersAt) < c.cfg.BeatInterval {
		return nil
	}
	return bounded(ctx, func(ctx context.Context) (err error) {
		if c.orders, err = session.Orders(ctx); err != nil {
			return err
		}
		c.ordersAt = now
		c.looks.follow(c.orders.Looks, &c.failing, now)
		x := Exchange{}
		if c.orders.Requests {
			x.Requests = maxRequests
		}
		if len(c.orders.Parked) > 0 {
			x.Ghosts = ghosts
		}
		result, err := session.Exchange(ctx, x)
		c.attempts = make(map[int64]int, len(result.Released))
		for _, r := range result.Released {
			c.attempts[r.ID] = r.Attempts
		}
		return err
	})
}

// outcome returns what was acknowledged and what is to be parked, and holds or counts the rest.
func (c *claimLoop) outcome(events []*Event, errs []error) (d done) {
	c.ledger.count(events, errs)
	now := time.Now()
	var failure error
	var held []*hold
	var refused []refusal
	for i, e := range events {
		switch classOf(errs[i]) {
		case none:
			d.acked = append(d.acked, Ref{e.ID, e.EventID})
			c.lifted.prove(e)
		case Unsent:
		case Refused:
			kind := c.pacers.classes.refused(e.class).scope(e)
			r := refusal{event: e, scope: scopeOf(e, kind, nil), err: errs[i], attempts: c.attempts[e.ID] + 1}
			refused, d.park = append(refused, r), append(d.park, r.parking())
		case TopicUnusable:
			if !c.failing.covers(e) {
				h := &hold{scope: scopeOf(e, ScopeTopic, nil), since: e.CreatedAt, err: errs[i]}
				h.begin(&c.lifted, now)
				c.failing.add(h)
				held = append(held, h)
			}
		case Outage, Unanswered:
			c.pacers.postpone(now.Add(c.cfg.Interval))
			failure = errs[i]
		}
	}
	logFew(c.log, held, "topics that wait", func(h *hold) { h.log(c.log, now) })
	logRefused(c.log, refused)
	c.ledger.acknowledged(len(d.acked), failure)
	return d
}

// report tells the age of the oldest event in hand.
func (c *claimLoop) report(claim Claim) {
	var oldest time.Time
	if events := claim.Events(); len(events) > 0 {
		oldest = events[0].CreatedAt
	}
	c.ledger.clock(claim.Now(), time.Now())
	c.ledger.waiting(oldest, c.failing.len(), 0, nil)
}
