package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ParkedCount is how many events are parked, and how many of them relays are asked to retry or discard, each counted up
// to MaxCounted.
type ParkedCount struct {
	Count     int
	Capped    bool // there are more than Count
	Requested int
}

// parkedCountSQL walks along the primary key, and for the requests along their own index.
const parkedCountSQL = `
select (select count(*) from (select from {{schema}}.parked where outbox = $1 limit $2) p),
       (select count(*) from (
            select from {{schema}}.parked where outbox = $1 and request is not null limit $3) r)`

// lookAtParked leaves unknown what the role may not read: that is among the problems already.
func (s *Status) lookAtParked(ctx context.Context, conn *pgx.Conn) error {
	o := s.Outbox
	if o.ID == 0 {
		return nil
	}
	var n ParkedCount
	var pauses []Pause
	err := looking(ctx, conn, statusLimit, func(tx pgx.Tx) (err error) {
		row := tx.QueryRow(ctx, o.Names.sql(parkedCountSQL), o.BaseID, MaxCounted+1, MaxCounted)
		if err = row.Scan(&n.Count, &n.Requested); err == nil {
			pauses, err = readPauses(ctx, tx, o)
		}
		return err
	})
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil
	}
	if err != nil {
		return err
	}
	n.Count, n.Capped = min(n.Count, MaxCounted), n.Count > MaxCounted
	s.Parked, s.Pauses = &n, pauses
	return nil
}
