package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// heldXmin is a drain beside a transaction that stays open for all of it, elsewhere in the cluster: dead entries of the
// index stay where they are, and whoever polls from the beginning walks over all of them each time. How much of the
// normal rate is left?
type heldXmin struct{ runs map[string]int } // by subject

func (o options) heldXminScenarios() []Scenario {
	h := heldXmin{map[string]int{}}
	return []Scenario{{
		name: "held-xmin", about: "a backlog beside a transaction that stays open elsewhere", rounds: 3,
		usual: []string{"handwritten-50", "posthaste", "posthaste-delete"},
		fits:  func(t traits) bool { return t.ships && t.settles }, run: h.run,
	}}
}

// run drains twice, one right after the other, so that both meet the same machine. Which is first alternates: the first
// leaves the server work, such as a checkpoint.
func (h heldXmin) run(ctx context.Context, g *grounds, s Subject) ([]Figure, error) {
	var free, held drained
	drains := []func() error{
		func() (err error) {
			free, err = g.drain(ctx, usual(g.size.Small), s, 1)
			return err
		},
		func() (err error) {
			held, err = g.beside(ctx, s)
			return err
		},
	}
	first := h.runs[s.Name()] % 2
	h.runs[s.Name()]++
	for i := range drains {
		if err := drains[(first+i)%2](); err != nil {
			return nil, err
		}
	}
	return []Figure{
		{Name: "free", Unit: "events/s", Value: free.rate}, {Name: "held", Unit: "events/s", Value: held.rate},
		{Name: "kept", Unit: "of free", Value: held.rate / free.rate},
	}, nil
}

// beside drains while a transaction of another database is open. It has drawn a transaction id, as any that writes
// does; all snapshots taken since count it as running.
func (g *grounds) beside(ctx context.Context, s Subject) (d drained, err error) {
	err = g.withServer(ctx, func(holder *pgx.Conn) error {
		_, err := holder.Exec(ctx, `begin isolation level repeatable read; select txid_current()`)
		if err != nil {
			return fmt.Errorf("open a transaction: %w", err)
		}
		d, err = g.drain(ctx, usual(g.size.Small), s, 1)
		return err
	})
	return d, err
}
