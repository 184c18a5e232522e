package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	// oldLooksSQL keeps the table small: relays heed what was asked lately.
	oldLooksSQL = `
delete from {{schema}}.topic_look where outbox = $1 and asked_at < clock_timestamp() - interval '1 hour'`

	lookAgainSQL = `
insert into {{schema}}.topic_look (outbox, topic) values ($1, $2)
on conflict (outbox, topic) do update set asked_at = clock_timestamp()`
)

// LookAgain asks relays to look at a topic now that they have found missing or forbidden, instead of after their pause
// of up to 30 seconds. It frees nothing by itself: a topic that is missing still stays held.
func (op *Operator) LookAgain(ctx context.Context, topic string, by By) error {
	if err := checkTopic(topic); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if err := by.check(false); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return op.acting(ctx, "release topic "+topic, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, op.sql(oldLooksSQL), op.outbox.BaseID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, op.sql(lookAgainSQL), op.outbox.BaseID, topic); err != nil {
			return err
		}
		return op.record(ctx, tx, by, "release", map[string]string{"topic": topic}, nil)
	})
}
