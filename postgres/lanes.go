package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// MaxLanes is the largest number of lanes.
const MaxLanes = 1024

// resizeLockSQL waits for whoever is taking lanes and keeps others from it.
const resizeLockSQL = `select from {{schema}}.outbox where id = $1 for update`

// resizeSQL gives the outbox the number of lanes that is wanted, if all are free. A lane's first epoch is above every
// epoch of the generations before.
const resizeSQL = `
with o as (
    update {{schema}}.outbox set lanes = next_lanes, next_lanes = null, generation = generation + 1
    where id = $1 and next_lanes is not null
      and not exists (select from {{schema}}.lane where outbox = $1 and owner is not null)
    returning id, lanes, generation),
gone as (
    delete from {{schema}}.lane l using o where l.outbox = o.id and l.lane >= o.lanes)
insert into {{schema}}.lane (outbox, lane, epoch)
select o.id, n, o.generation << 32 from o, generate_series(0, o.lanes - 1) n
on conflict do nothing`

// Resize waits for whoever is taking lanes, then changes their number. It is the change itself that must not overlap
// with a take: the lock on the outbox row keeps them apart.
func (m *membership) Resize(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.sql.resizeLock, m.outbox.ID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, m.sql.resize, m.outbox.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("change the number of lanes: %w", err)
	}
	return nil
}

// CheckLanes refuses a number that lanes can't have.
func CheckLanes(lanes int) error {
	if lanes < 1 || lanes > MaxLanes || lanes&(lanes-1) != 0 {
		return fmt.Errorf("set lanes to %d: want a power of two from 1 to %d", lanes, MaxLanes)
	}
	return nil
}

const wantLanesSQL = `
update {{schema}}.outbox set next_lanes = nullif($2, lanes) where name = $1 and topic_group = $3 returning lanes`

// SetLanes asks for another number of lanes. Running relays finish what is in flight, free their lanes and take the new
// ones within a few beats; without relays the next one that starts makes the change. It returns the number that
// stands now.
func SetLanes(ctx context.Context, conn *pgx.Conn, names Names, lanes int) (int, error) {
	if err := CheckLanes(lanes); err != nil {
		return 0, err
	}
	if err := Check(ctx, conn, names, RightRead); err != nil {
		return 0, err
	}
	var before int
	if err := conn.QueryRow(ctx, names.sql(wantLanesSQL), names.Table.String(), lanes,
		names.Group).Scan(&before); err != nil {
		return 0, fmt.Errorf("set lanes to %d: %w", lanes, translate(err))
	}
	return before, nil
}
