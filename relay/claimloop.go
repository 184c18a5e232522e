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
	holds     holds
	lifted    holds // lifted to look again, not yet proven
	late      []Ref // acknowledged after their claim had ended, not yet marked
}

func newClaimLoop(r *Relay) *claimLoop {
	return &claimLoop{store: r.store, publisher: r.publisher, cfg: r.cfg, log: r.cfg.Logger, ledger: r.ledger,
		pacers: newPacers(r.cfg), holds: newHolds(), lifted: newHolds()}
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
		c.log.Warn("could not mark what Kafka acknowledged late; it will be sent again", "events", len(c.late),
			"reason", err)
	}
	if ops.Err() != nil && work.Err() == nil {
		return ErrDrainTimeout
	}
	return nil
}

// settleLate marks, at the stop, what was acknowledged after its claim had ended.
func (c *claimLoop) settleLate(ctx context.Context) error {
	if len(c.late) == 0 {
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
	if len(c.late) == 0 {
		return nil
	}
	err := bounded(ctx, func(ctx context.Context) error {
		_, err := session.Exchange(ctx, Exchange{Settle: c.late})
		return err
	})
	if err == nil {
		c.late = nil
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
	c.holds.lift(now, c.lifted)
	due := c.pacers.due(now, false)
	read := Read{Above: math.MinInt64, UpTo: math.MaxInt64, Limit: c.pacers.limit(due), Bytes: c.cfg.Memory}
	if choice := c.pacers.classes.choice(due); choice != nil {
		read.Wanted = []Choice{choice}
	}
	c.holds.exclude(&read)
	var claim Claim
	err := bounded(ctx, func(ctx context.Context) (err error) {
		claim, err = session.Claim(ctx, read)
		return err
	})
	if err != nil {
		return err
	}
	c.ledger.databaseAnswered(nil)
	c.ledger.read()
	events := claim.Events()
	for _, e := range events {
		e.class = c.pacers.classes.of(e.Topic)
	}
	c.report(claim)
	c.pacers.read(due, events, len(events) == read.Limit, time.Now())
	if len(events) == 0 {
		return bounded(ctx, claim.Release)
	}
	published := make(chan []error, 1)
	c.ledger.handedOver(time.Now())
	go func() { published <- c.publisher.Publish(ctx, events) }()
	timeout := time.NewTimer(c.cfg.ClaimTimeout)
	defer timeout.Stop()
	select {
	case errs := <-published:
		acked := c.outcome(events, errs)
		err := bounded(ctx, func(ctx context.Context) error { return claim.Settle(ctx, acked) })
		if err != nil {
			c.late = acked
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

// outcome returns what was acknowledged, and holds or counts the rest.
func (c *claimLoop) outcome(events []*Event, errs []error) []Ref {
	c.ledger.count(events, errs)
	now := time.Now()
	var acked []Ref
	var failure error
	var made []*hold
	for i, e := range events {
		switch class := classOf(errs[i]); {
		case errs[i] == nil:
			acked = append(acked, Ref{e.ID, e.EventID})
			c.lifted.prove(e)
		case class == Unsent:
		case class == Outage:
			c.pacers.postpone(now.Add(c.cfg.Interval))
			failure = errs[i]
		case c.holds.covering(e) == nil:
			h := newHold(e, class, errs[i])
			h.begin(c.lifted, now)
			c.holds.add(h)
			made = append(made, h)
		}
	}
	logHolds(c.log, made, now)
	c.ledger.acknowledged(len(acked), failure)
	return acked
}

// report tells the age of the oldest event in hand.
func (c *claimLoop) report(claim Claim) {
	var oldest time.Time
	if events := claim.Events(); len(events) > 0 {
		oldest = events[0].CreatedAt
	}
	c.ledger.clock(claim.Now(), time.Now())
	c.ledger.waiting(oldest, c.holds.len(), 0)
}
