package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// heldXmin is a drain beside a transaction that stays open for all of it, elsewhere in the cluster: dead entries of the
// index stay where they are, and whoever polls from the beginning walks over all of them each time. How much of the
// normal rate is left?
type heldXmin struct {
	drain
	options options
	runs    map[string]int // by subject
}

func (*heldXmin) Name() string        { return "held-xmin" }
func (*heldXmin) Fits(s Subject) bool { return s.Ships() }

// Run drains twice, one right after the other, so that both meet the same machine. Which is first alternates: the first
// leaves the server work, such as a checkpoint.
func (h *heldXmin) Run(ctx context.Context, p place, s Subject) ([]Figure, error) {
	var free, held float64
	var err error
	drains := []func(){
		func() { free, _, err = h.once(ctx, p, s) },
		func() { held, err = h.beside(ctx, p, s) },
	}
	first := h.runs[s.Name()] % 2
	h.runs[s.Name()]++
	for i := range drains {
		if drains[(first+i)%2](); err != nil {
			return nil, err
		}
	}
	return []Figure{{"free", "events/s", free}, {"held", "events/s", held}, {"kept", "of free", held / free}}, nil
}

// beside drains in a new place while a transaction of another database is open. It has drawn a transaction id, as any
// that writes does; all snapshots taken since count it as running.
func (h *heldXmin) beside(ctx context.Context, p place, s Subject) (rate float64, err error) {
	holder, err := pgx.Connect(ctx, h.options.database)
	if err != nil {
		return 0, fmt.Errorf("open a transaction: %w", err)
	}
	defer holder.Close(context.WithoutCancel(ctx))
	_, err = holder.Exec(ctx, `begin isolation level repeatable read; select txid_current()`)
	if err != nil {
		return 0, fmt.Errorf("open a transaction: %w", err)
	}
	other, err := newPlace(ctx, h.options, p.scratch)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, other.close(ctx, h.options)) }()
	if err := s.Prepare(ctx, other); err != nil {
		return 0, err
	}
	rate, _, err = h.once(ctx, other, s)
	return rate, err
}
