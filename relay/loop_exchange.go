package relay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// connect asks for a database session, if there is none.
func (l *loop) connect(ctx context.Context, now time.Time) {
	if l.session != nil || l.opening || now.Before(l.reopenAt) {
		return
	}
	l.opening = true
	go func() {
		octx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		s, err := l.store.Open(octx)
		l.opened <- opened{s, err}
	}()
}

// open takes a session over. Nothing that the one before has seen holds any more: marks may be lost with a crash.
func (l *loop) open(o opened) error {
	l.opening = false
	if permanent(o.err) {
		return o.err
	}
	if o.err != nil {
		l.ledger.databaseAnswered(o.err)
		l.reopenAt = time.Now().Add(l.reopen.pause())
		return nil
	}
	l.session = o.session
	l.flow.unstable = !o.session.Horizons()
	if l.flow.unstable && l.flow.strict {
		return &Permanent{ErrNoHorizon}
	}
	l.flow.forgetHorizon()
	l.lookAsked = time.Time{}
	l.nap = nap{}
	l.pacers.soon()
	return nil
}

// trade makes the next exchange with the database, if one is due: what is acknowledged is settled at once, what was
// refused parked, and a read comes along wherever there is room for its rows.
func (l *loop) trade(ctx context.Context, now time.Time, reading bool) {
	if l.session == nil || l.exchange != nil {
		return
	}
	x := exchanged{}
	x.Member = l.tenure.id
	if reading && l.member.maySend(now) {
		if x.read = l.nextRead(now); x.read != nil {
			x.Read = &x.read.Read
		}
		if l.orders.requests && l.flow.catching.empty() && !l.flow.stopped() {
			x.Requests, x.Wanted = maxRequests, l.flow.group
		}
		if len(l.flow.parked) > 0 && now.Sub(l.orders.checked) > time.Second {
			l.orders.checked, x.Ghosts, x.Wanted = now, ghosts, l.flow.group
		}
	}
	if len(l.flow.acked) > 0 {
		x.Settle = l.flow.nextSettle()
	}
	if len(l.flow.refused) > 0 && l.tenure.id != 0 {
		x.Park = l.flow.nextPark()
	}
	if l.nap.state != awake || x.read != nil && !x.read.catchUp {
		x.Sleep = l.nap.word(l.maySleep(now))
	}
	if x.Settle == nil && x.Read == nil && x.Park == nil && x.Requests+x.Ghosts == 0 && x.Sleep == AsBefore {
		return
	}
	if x.read != nil && !x.read.catchUp {
		x.word = l.nap.takeWord()
	}
	x.Horizon = x.read != nil && (l.lookDue(now) || x.Sleep == Doze || l.nap.state == wary)
	if x.Horizon {
		l.lookAsked = now
	}
	x.asked = now
	l.exchange = &x
	l.busySince.Store(int64(now.Sub(l.start)))
	session := l.session
	go func() {
		xctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
		defer cancel()
		x.result, x.err = session.Exchange(xctx, x.Exchange)
		l.exchanged <- x
	}()
}

// maySleep tells whether writers may be asked to wake this relay: events come seldom, and those that come will be read.
func (l *loop) maySleep(now time.Time) bool {
	view, _ := l.member.latest()
	return l.session.Wakes() && view.Listens && l.pacers.quiet(now) && !l.flow.stopped() && l.flow.lanes.Len() > 0 &&
		!l.nap.restless(now)
}

// nextRead returns the read to make now, or nil. What had been held and what was not have their turns.
func (l *loop) nextRead(now time.Time) *request {
	due := l.pacers.due(now, len(l.flow.acked) > 0)
	if due == 0 || !l.caughtUp {
		limit := l.catchUp
		if !l.flow.lifted.empty() {
			limit = l.cfg.Batch // enough to see whether their topics can be used now
		}
		if r := l.flow.nextCatchUp(limit); r != nil {
			l.caughtUp = true
			return r
		}
	}
	if due == 0 {
		return nil
	}
	l.caughtUp = false
	if l.nap.state != asleep && l.maySleep(now) {
		due = l.pacers.due(now, true) // of all that writers wake this relay for
	}
	return l.flow.nextRead(l.pacers.limit(due), due, l.pacers.sweepDue(due, now))
}

// lookDue tells whether to look at the writers with the next read.
func (l *loop) lookDue(now time.Time) bool {
	if l.flow.strict {
		return true
	}
	since := now.Sub(l.lookAsked)
	return l.flow.behind() && (since >= horizonEvery || l.flow.unlooked >= horizonRows && since >= horizonPause)
}

// settleExchange takes the result of an exchange in.
func (l *loop) settleExchange(x exchanged) error {
	now := time.Now()
	l.exchange = nil
	took := now.Sub(l.start) - time.Duration(l.busySince.Swap(0))
	l.ledger.databaseAnswered(x.err)
	if x.err != nil {
		return l.disconnect(x, now)
	}
	l.reopen.reset()
	if x.Settle != nil {
		l.flow.settled()
		if err := l.missed(len(x.Settle)-x.result.Settled, now); err != nil {
			return err
		}
		l.resettle = false
	}
	if x.Park != nil {
		l.flow.wereParked(x.result.Parked)
		l.orders.doubted = now // an earlier beat does not know of them
	}
	if x.Requests > 0 {
		l.orders.requests = len(x.result.Released) >= x.Requests
	}
	l.flow.release(x.result.Released)
	if x.read != nil && !x.read.catchUp {
		l.pacers.took(x.read.classes, took, x.read.sweep, now)
	}
	l.nap.said(x.Sleep, x.result)
	l.pacers.wary(l.nap.state == wary)
	backwards := x.result.Horizon != nil && l.look(x, now)
	if x.read != nil {
		l.arrived(x, now)
	}
	switch {
	case x.result.Horizon == nil:
	case backwards, l.flow.strict && l.flow.final() > x.read.UpTo:
		l.pacers.soon()
	case l.flow.expecting():
		l.pacers.stir(now)
	}
	return nil
}

// arrived takes the rows of a read in.
func (l *loop) arrived(x exchanged, now time.Time) {
	l.ledger.read(x.read.sweep)
	counts := l.flow.arrived(x.read, x.result.Events, x.result.More)
	switch {
	case x.read.catchUp && x.result.More:
		l.catchUp = min(4*l.catchUp, l.cfg.BatchMax)
	case x.read.catchUp:
		l.catchUp = l.cfg.Batch
	case counts:
		l.pacers.read(x.read.classes, x.result.Events, x.result.More, x.asked, now)
		if x.word {
			l.nap.answered(len(x.result.Events) > 0 || l.flow.expecting(), now)
		}
		if l.nap.woken { // while the read was on its way
			l.pacers.wake()
		}
	}
}

// missed takes in how many rows a settle did not find unpublished. Their ids may stand for other rows by now, which
// reads have left out; and something else may have settled them.
func (l *loop) missed(rows int, now time.Time) error {
	if rows == 0 || l.resettle {
		return nil
	}
	l.flow.reset()
	l.pacers.soon()
	return l.foreign.seen(now, fmt.Sprintf("%d events were published or deleted by something else", rows))
}

// look takes a look at the writers in, and tells whether the sequence went backwards. It was made before the read that
// came with it, so that has seen what is final by it.
func (l *loop) look(x exchanged, now time.Time) (backwards bool) {
	l.lookCame = now
	if backwards = l.flow.observe(*x.result.Horizon); backwards {
		l.log.Warn(sequenceBackwards, "last", x.result.Horizon.Last)
	}
	x.read.final = max(x.read.final, l.flow.final())
	return backwards
}

const sequenceBackwards = "the sequence of ids went backwards, reading the table from its beginning"

// disconnect gives the session up after a failed exchange; what it was to settle is settled by the next.
func (l *loop) disconnect(x exchanged, now time.Time) error {
	if permanent(x.err) {
		return x.err
	}
	l.session.Close()
	l.session = nil
	if x.Settle != nil {
		l.flow.unsettled()
		l.resettle = true
	}
	l.flow.parkingFailed()
	if x.read != nil {
		l.pacers.restart()
	}
	if errors.Is(x.err, ErrRowsLocked) {
		return l.locked.seen(now, x.err.Error())
	}
	l.reopenAt = now.Add(l.reopen.pause())
	return nil
}
