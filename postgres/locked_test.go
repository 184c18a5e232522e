package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
)

// Whoever looks at a table that somebody has locked for himself alone is told so, instead of waiting for as long.
func TestNobodyWaitsForALockedTable(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		locker := connect(t, b.config)
		exec(t, locker, "begin", "lock outbox_event")
		var looks sync.WaitGroup
		dry := postgres.MigrateOptions{DryRun: true}
		for name, look := range map[string]func(context.Context, *pgx.Conn) error{
			"inspect": func(ctx context.Context, conn *pgx.Conn) error {
				_, err := postgres.Inspect(ctx, conn, b.names)
				return err
			},
			"check": func(ctx context.Context, conn *pgx.Conn) error { return postgres.Check(ctx, conn, b.names) },
			"differences": func(ctx context.Context, conn *pgx.Conn) error {
				_, _, err := postgres.Differences(ctx, conn, b.names)
				return err
			},
			"groups": func(ctx context.Context, conn *pgx.Conn) error {
				_, err := postgres.Groups(ctx, conn, b.names)
				return err
			},
			"set group": func(ctx context.Context, conn *pgx.Conn) error {
				return postgres.SetGroup(ctx, conn, b.names, group("g", "x"))
			},
			"grants": func(ctx context.Context, conn *pgx.Conn) error {
				_, err := postgres.GrantsSQL(ctx, conn, b.names, postgres.DefaultRoles())
				return err
			},
			"plan": func(ctx context.Context, conn *pgx.Conn) error {
				_, err := postgres.Migrate(ctx, conn, b.names, dry)
				return err
			},
			"plan down": func(ctx context.Context, conn *pgx.Conn) error {
				_, err := postgres.MigrateDown(ctx, conn, b.names, dry)
				return err
			},
		} {
			conn := connect(t, b.config)
			looks.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				err := look(ctx, conn)
				if problem, ok := errors.AsType[postgres.Problem](err); !ok || !errors.Is(problem, postgres.ErrBusy) {
					t.Errorf("%s: %v, want a Problem of kind ErrBusy", name, err)
				}
			})
		}
		looks.Wait()
	})
}
