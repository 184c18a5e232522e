package e2e_test

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"posthaste.dev/posthaste/testbed/servers"
)

// The database's clock jumps an hour forth and back under load. The lease is a time of that clock, yet no relay gives
// another up for it, and nothing is lost, repeated or reordered. (The relay's own decisions don't know the wall clock
// at all; internal/archtest holds that.)
func TestDatabaseClockJumps(t *testing.T) {
	t.Parallel()
	db, jump := startJumpy(t)
	m := newMoveOn(t, makeBed(t, db.URL(), oneBroker(t), "order.confirmed", "order.cancelled"))
	m.migrate()
	relays := m.start(2, m.relay())
	m.awaitShares(2)
	m.flow()
	before := m.memberIDs()
	for _, by := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
		was := m.databaseTime()
		jump(by)
		t.Logf("the clock of the database jumps by %s", m.databaseTime().Sub(was).Round(time.Minute))
		m.flow()
		m.letPass(span(2*time.Second, 12*time.Second)) // some beats of each, and in a long run more than the lease
		m.flow()
	}
	if after := m.memberIDs(); after != before {
		t.Errorf("members %s became %s: a relay was given up", before, after)
	}
	m.finish(relays, nil)
}

func (b *bed) memberIDs() (ids string) {
	b.t.Helper()
	b.ok(b.db.QueryRow(b.ctx, `select string_agg(id::text, ', ' order by id) from posthaste.member`).Scan(&ids))
	return ids
}

func (b *bed) databaseTime() (now time.Time) {
	b.t.Helper()
	b.ok(b.db.QueryRow(b.ctx, `select clock_timestamp()`).Scan(&now))
	return now
}

// startJumpy starts a PostgreSQL whose wall clock is shifted by what jump is told.
func startJumpy(t *testing.T) (db *servers.Postgres, jump func(time.Duration)) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("the clock of a process is shifted by a library in C, and there is no cc")
	}
	dir, err := os.MkdirTemp("", "posthaste-clock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	library, shift := filepath.Join(dir, "clock.so"), filepath.Join(dir, "shift")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", library, "testdata/clock.c").
		CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	jump = func(by time.Duration) {
		var seconds [8]byte
		binary.NativeEndian.PutUint64(seconds[:], uint64(by/time.Second))
		file, err := os.OpenFile(shift, os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			_, err = file.WriteAt(seconds[:], 0)
			file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	jump(0)
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db, err = servers.StartPostgres(ctx, servers.PostgresConfig{
		Major: 15, Env: []string{"LD_PRELOAD=" + library, "CLOCK_SHIFT=" + shift}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Remove(); err != nil {
			t.Error(err)
		}
	})
	return db, jump
}
