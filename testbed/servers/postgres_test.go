package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgresComesBackAfterAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "server")
	s, err := StartPostgres(ctx, PostgresConfig{Major: 15, Dir: dir, Settings: map[string]string{"work_mem": "5MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Remove() })
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "create table kept as select 42 as n"); err != nil {
		t.Fatal(err)
	}

	old := s.Pid()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if s.Alive() {
		t.Error("alive after Kill")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if s.Pid() == old {
		t.Error("the process id is still that of the killed server")
	}
	checkServer(ctx, t, s)
	if err := s.Restart(ctx); err != nil { // this time in order
		t.Fatal(err)
	}
	checkServer(ctx, t, s)

	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, s.data} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there after Remove: %v", path, err)
		}
	}
}

// checkServer checks that data and settings are those of the first start.
func checkServer(ctx context.Context, t *testing.T, s *Postgres) {
	t.Helper()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const query = "select n, current_setting('work_mem'), current_setting('wal_level'), " +
		"current_setting('synchronous_commit') from kept"
	var n int
	var memory, level, commit string
	if err := conn.QueryRow(ctx, query).Scan(&n, &memory, &level, &commit); err != nil {
		t.Fatal(err)
	}
	if n != 42 || memory != "5MB" || level != "logical" || commit != "on" {
		t.Errorf("got row %d, work_mem %s, wal_level %s, synchronous_commit %s", n, memory, level, commit)
	}
}

func TestStartPostgresSaysWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "server")
	config := PostgresConfig{Major: 15, Dir: dir, Settings: map[string]string{"wal_level": "nonsense"}}
	_, err := StartPostgres(t.Context(), config)
	if err == nil || !contains(err, "nonsense") {
		t.Errorf("StartPostgres = %v, want the line of the log that names the wrong setting", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed start left its folder: %v", err)
	}
	if _, err := StartPostgres(t.Context(), PostgresConfig{Major: 9}); err == nil || !contains(err, "13 to 18") {
		t.Errorf("StartPostgres of major 9 = %v, want an error that names the known majors", err)
	}
}
