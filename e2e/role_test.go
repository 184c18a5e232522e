package e2e_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste/internal/testenv"
)

// createRole makes a role that may log in. Call it before newBed: what is in the bed's database depends on the role, so
// that has to go after it.
func createRole(t *testing.T, database string) string {
	t.Helper()
	admin := connect(t, testenv.Require(t, database))
	role := "e2e" + random()
	if _, err := admin.Exec(t.Context(), "create role "+role+" login password 'secret'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop role "+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

// as connects as a role that createRole made.
func (b *bed) as(role string) *pgxpool.Pool {
	b.t.Helper()
	u, err := url.Parse(b.dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	return connect(b.t, u.String())
}
