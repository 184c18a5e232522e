package relay

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Relay ships the events of one outbox table to Kafka. Make it with New, start it with Run; Stats may be called at any
// time.
type Relay struct {
	store     Store
	publisher Publisher
	cfg       Config
	ledger    *ledger
	member    *member
	started   sync.Once
}

// New returns a relay over the store and the publisher, which it does not close. It refuses a configuration that it
// can't work with, naming every bad value; it talks to no server.
func New(store Store, publisher Publisher, cfg Config) (*Relay, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Relay{store: store, publisher: publisher, cfg: cfg, ledger: newLedger(cfg.Logger)}
	r.member = newMember(store, cfg, r.ledger)
	r.member.report = r.report
	return r, nil
}

// Run ships events until the context ends. Then it stops reading, waits up to the drain timeout for the chunk in
// flight, settles it, frees its lanes and returns nil.
//
// Outages of either server are ridden out, at the start as well. Run returns early only with an error that needs a
// person: what waiting can't mend (*Permanent), ErrForeignRelay, or ErrDrainTimeout after a stop. It may be called
// once.
func (r *Relay) Run(ctx context.Context) error {
	first := false
	r.started.Do(func() { first = true })
	if !first {
		return errors.New("run relay: it has run before; make a new one")
	}
	r.cfg.Logger.Info("relay starts", "claim", r.cfg.Claim, "order", r.cfg.Order,
		"batch", r.cfg.Batch, "batch_max", r.cfg.BatchMax, "interval", r.cfg.Interval.String())

	// Two contexts: ctx ends the taking, work ends what serves it, once the loop has finished what is in flight.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop(nil)
	reached := make(chan struct{}) // closed when Kafka has answered once
	group.Go(func() { r.watchKafka(work, stop, reached) })

	var err error
	if r.cfg.Claim == ClaimSkipLocked {
		r.cfg.Logger.Warn("claim mode skip-locked keeps no order when several relays run, " +
			"and holds row locks while Kafka is slow")
		c := newClaimLoop(r)
		c.publisher = patient{r.publisher, reached}
		err = c.run(ctx, work)
	} else {
		l := newLoop(r)
		r.member.alive = l.alive
		group.Go(func() {
			select {
			case <-reached: // before, its lanes would only be kept from a relay that can send
			case <-work.Done():
				return
			}
			if err := r.member.run(work); err != nil {
				stop(err)
			}
		})
		err = l.run(ctx, work)
	}
	if cause := context.Cause(work); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err == nil {
		r.cfg.Logger.Info("relay stops, everything in flight is settled")
	}
	return err
}

// Pauses between two questions to Kafka whether it is there.
const (
	pingInterval = 3 * time.Second
	pingTimeout  = 8 * time.Second
)

// watchKafka asks Kafka for an answer now and then, so that readiness is true on an idle relay, and a refusal at the
// start is told by name: a produce would wait for ever. It ends the relay when the cluster that answers is not the one
// that the outbox belongs to.
func (r *Relay) watchKafka(ctx context.Context, stop context.CancelCauseFunc, reached chan<- struct{}) {
	answered, bound, refused := false, "", 0
	for ctx.Err() == nil {
		pctx, cancel := context.WithTimeout(ctx, pingTimeout)
		cluster, err := r.publisher.Ping(pctx)
		cancel()
		if ctx.Err() != nil {
			return
		}
		pause := pingInterval
		switch {
		case err == nil && (!answered || cluster != bound && cluster != ""):
			if err := r.bind(ctx, cluster); permanent(err) {
				stop(err)
				return
			} else if err != nil {
				pause = time.Second
				break
			}
			if bound = cluster; !answered {
				close(reached)
			}
			answered = true
		case permanent(err) && !answered:
			// Once more: a broker that is just starting or stopping gives strange answers too.
			if refused++; refused > 1 {
				stop(err)
				return
			}
			pause = time.Second
		}
		r.ledger.pinged(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}
