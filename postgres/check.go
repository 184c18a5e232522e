package postgres

import (
	"context"
	"errors"
	"time"
)

// checkTimeout bounds a look at the outbox while relays run.
const checkTimeout = 20 * time.Second

// check looks now and then whether the outbox is still what a relay can work on, and of the make that it was: from the
// moment at which its sequence caches ids nothing is final any more, and row-level security may begin to hide rows. It
// has a connection of its own for that long, since a beat must not wait for a table that somebody has locked.
type check struct {
	last    time.Time    // when a look ended
	running chan checked // nil: no look is under way
	ctx     context.Context
	stop    context.CancelFunc
}

type checked struct {
	outbox *Outbox
	err    error
}

func (c *check) begin() {
	c.last = time.Now()
	c.ctx, c.stop = context.WithCancel(context.Background())
}

// end gives up the look that is under way.
func (c *check) end() {
	c.stop()
	if c.running != nil {
		<-c.running
	}
}

// look begins a look when one is due, and returns what the one before has found to be wrong. That it could not be made
// says nothing: whoever can't connect any more has other signs of it.
func (m *membership) look() error {
	c := &m.check
	if c.running == nil && time.Since(c.last) >= m.store.cfg.CheckInterval {
		done := make(chan checked, 1)
		c.running = done
		go func() {
			outbox, err := m.store.inspect(c.ctx)
			done <- checked{outbox, err}
		}()
		return nil
	}
	select {
	case found := <-c.running:
		c.last, c.running = time.Now(), nil
		return m.take(found)
	default:
		return nil
	}
}

// take works on by what a look has found.
func (m *membership) take(found checked) error {
	if wrong, ok := errors.AsType[*SchemaError](found.err); ok {
		return wrong
	}
	if found.err != nil {
		return nil
	}
	m.store.warn(found.outbox.Warnings)
	m.store.found.Store(found.outbox)
	if found.outbox.ID != m.outbox.ID || found.outbox.LockClass != m.outbox.LockClass {
		return errChanged // we are a member of what is gone
	}
	m.outbox = found.outbox
	return nil
}

// inspect looks at the outbox by a connection of its own.
func (s *Store) inspect(ctx context.Context) (*Outbox, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	conn, _, err := connectOwn(ctx, s.target())
	if err != nil {
		return nil, err
	}
	defer closeNow(conn)
	return Inspect(ctx, conn, s.cfg.Names, s.rights()...)
}
