package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// claim is a transaction that holds the row locks of a batch.
type claim struct {
	session *session
	events  []*relay.Event
	now     time.Time
}

// Claim begins a transaction and locks the next rows that nobody has locked.
func (s *session) Claim(ctx context.Context, r relay.Read) (relay.Claim, error) {
	if len(s.outbox.Groups) > 0 {
		return nil, &relay.Permanent{Err: Problem{ErrGroup, fmt.Sprintf("outbox %s has groups of topics (%s), which "+
			"claim skip-locked would ship a second time", s.outbox.Names.Table, strings.Join(s.outbox.Groups, ", ")),
			"run with POSTHASTE_RELAY_CLAIM=lanes, or remove them: " + s.outbox.Names.command("groups remove GROUP")}}
	}
	var result relay.Result
	batch := &pgx.Batch{}
	c := &claim{session: s}
	batch.Queue("begin")
	batch.Queue(s.local)
	// Kafka's time counts as idle here; the relay's claim timeout bounds it.
	batch.Queue(`select set_config('idle_in_transaction_session_timeout', '0', true)`)
	batch.Queue(`select clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&c.now) })
	s.reader.queue(batch, &r, true, &result)
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, exchangeError(err)
	}
	c.events = result.Events
	return c, nil
}

func (c *claim) Events() []*relay.Event { return c.events }

func (c *claim) Now() time.Time { return c.now }

func (c *claim) Settle(ctx context.Context, refs []relay.Ref, park []relay.Parking) error {
	if len(refs)+len(park) == 0 {
		return c.Release(ctx)
	}
	batch := &pgx.Batch{}
	settled := 0
	c.session.settle.queue(batch, refs, &settled)
	if len(park) > 0 {
		batch.Queue(c.session.park, parkArgs(0, park)...)
	}
	batch.Queue("commit")
	if err := c.session.conn.SendBatch(ctx, batch).Close(); err != nil {
		return exchangeError(err)
	}
	if settled != len(refs) {
		return fmt.Errorf("settle claimed rows: %d of %d were still unpublished although they were locked", settled,
			len(refs))
	}
	return nil
}

func (c *claim) Release(ctx context.Context) error {
	if _, err := c.session.conn.Exec(ctx, "rollback"); err != nil {
		return exchangeError(err)
	}
	return nil
}
