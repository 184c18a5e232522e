package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// WakeUp says what a migration does about the trigger that wakes relays: a statement that inserts events notifies them
// when its transaction commits, if one of them sleeps. While none does it costs the writer a look at one lock.
//
// It wakes for no event that logical replication brings, nor for one that is inserted straight into a partition; these
// are found by the relay's polls, as without it. A transaction that has notified can't be prepared for a two-phase
// commit, so the trigger is refused where max_prepared_transactions is above 0.
type WakeUp int

const (
	WakeUpAsIs WakeUp = iota // as it is
	WakeUpOn                 // the table gets the trigger
	WakeUpOff                // the table loses it
)

// wakeLockClass is the first key of the lock by which writers know that a relay sleeps: "wake" in ASCII, negative
// because members' locks have positive classes. The second one is the table's oid.
const wakeLockClass = -2002873189

// A member that sleeps holds the lock shared. The oid may be above what an integer holds; the cast keeps its bits.
const (
	dozeSQL   = `select pg_try_advisory_lock_shared($1, {{literal}}::regclass::oid::int4)`
	riseSQL   = `select pg_advisory_unlock_shared($1, {{literal}}::regclass::oid::int4)`
	listenSQL = `listen posthaste_%d`
)

func wakeStep(n Names) Step {
	return Step{"add the trigger that wakes relays", n.sql(briefly + `
create trigger posthaste_wake_up after insert on {{table}}
    for each statement execute function {{schema}}.wake_up();`[1:])}
}

func sleepStep(n Names) Step {
	return Step{"drop the trigger that wakes relays",
		n.sql(briefly + "drop trigger posthaste_wake_up on {{table}};")}
}

func (c *catalog) wakesUp() bool {
	return slices.ContainsFunc(c.extras.triggers, func(t trigger) bool { return t.wakes })
}

// refuseWakeUp lists what the trigger would do harm to.
func (c *catalog) refuseWakeUp() []Problem {
	if c.maxPrepared == 0 {
		return nil
	}
	return []Problem{{ErrWakeUp, fmt.Sprintf("max_prepared_transactions is %d, and a transaction that has woken a "+
		"relay can't be prepared", c.maxPrepared),
		"leave --wake-up out, or set max_prepared_transactions to 0 where nobody prepares transactions"}}
}

func (d *differences) compareWakeUp(drop string) {
	if d.maxPrepared > 0 {
		d.warn(ErrWakeUp, "set it to 0 where nobody prepares transactions, or run: "+drop,
			"max_prepared_transactions is %d, and a transaction that has woken a relay can't be prepared",
			d.maxPrepared)
	}
}

// Wakes tells whether a session may say that its relay sleeps. Behind a pooler the lock would stay with a connection
// that serves others.
func (s *session) Wakes() bool { return s.outbox.WakesUp && !s.pooled && s.look != nil }

// queueSleep puts into a pipeline what is said to writers.
func (s *session) queueSleep(batch *pgx.Batch, word relay.Sleep, result *relay.Result) {
	names := s.outbox.Names
	switch word {
	case relay.Doze:
		batch.Queue(names.sql(dozeSQL), wakeLockClass).QueryRow(func(row pgx.Row) error {
			return row.Scan(&result.Dozing)
		})
	case relay.Rise:
		batch.Queue(names.sql(riseSQL), wakeLockClass)
	}
}

// listen asks for the notifications of writers, where there are any.
func (m *membership) listen(ctx context.Context) error {
	if m.pooled || !m.outbox.WakesUp || m.listening == m.outbox.OID {
		return nil
	}
	if _, err := m.conn.Exec(ctx, fmt.Sprintf(listenSQL, m.outbox.OID)); err != nil {
		return fmt.Errorf("listen to writers: %w", advised(err))
	}
	m.listening = m.outbox.OID
	return nil
}
