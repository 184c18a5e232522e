package servers

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
)

func TestPgBouncerPools(t *testing.T) {
	t.Parallel()
	server := testenv.Require(t, testenv.DatabaseURL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := StartPgBouncer(ctx, PgBouncerConfig{Server: server, PoolMode: "transaction", PoolSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(b.dir); !os.IsNotExist(err) {
			t.Errorf("the folder is there after Remove: %v", err)
		}
	})
	pids := map[int]bool{}
	for range 2 { // who are both connected, and have one session of the server between them
		conn, err := pgx.Connect(ctx, b.url("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		var pid int
		if err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	if len(pids) != 1 {
		t.Errorf("two clients have the backends %v, want one", pids)
	}
	for _, command := range []string{"PAUSE", "RESUME", "RELOAD"} {
		if err := b.Admin(ctx, command); err != nil {
			t.Error(err)
		}
	}
	if err := b.Admin(ctx, "NONSENSE"); err == nil {
		t.Error("a command that there is not is taken")
	}
}
