package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
	"posthaste.dev/posthaste/testbed/servers"
)

// ownPostgres starts a server of the test's own.
func ownPostgres(t *testing.T, config servers.PostgresConfig) *servers.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config.Major = 15
	p, err := servers.StartPostgres(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, p) })
	return p
}

// A database that restarts or crashes under load takes no event with it, and costs no more duplicates than were in
// flight; a crash takes marks back too, those that had not reached the disk.
func TestDatabaseRestartsAndCrashes(t *testing.T) {
	t.Parallel()
	p := ownPostgres(t, servers.PostgresConfig{})
	b := makeBed(t, p.URL(), oneBroker(t), "order.confirmed")
	b.migrate()
	relays := []*process.Process{b.start(b.relay()), b.start(b.relay())}
	b.awaitShares(2)
	arrivals := b.follow()
	written, allowed := 0, 0
	for _, harm := range []struct {
		name string
		do   func()
		lost int // marks
	}{
		{"restart", func() { b.ok(p.Restart(b.ctx)) }, 0},
		{"kill -9", func() { b.ok(p.Kill()); b.ok(p.Restart(b.ctx)) }, 2000},
		{"restart at once", func() { b.ok(p.Restart(b.ctx)) }, 0},
	} {
		b.writeMany(2000, 50)
		b.some(arrivals, written+100)
		harm.do()
		b.db.Reset() // connections of before
		b.await(20*time.Second, "the database answers the test", func() bool { return b.db.Ping(b.ctx) == nil })
		written, allowed = written+2000, allowed+harm.lost+len(relays)*2*batchMax
		b.drain(20 * time.Second)
		if open, err := check.Unpublished(b.ctx, b.db, table); err != nil || len(open) > 0 {
			t.Fatalf("%s: %d events are left, %v", harm.name, len(open), err)
		}
	}
	for _, relay := range relays {
		b.stop(relay)
	}
	b.verdict(allowed)
}

// some waits for so many records at least.
func (b *bed) some(f *check.Follower, records int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if _, err := f.Wait(ctx, func(all []check.Arrival) bool { return len(all) >= records }); err != nil {
		b.t.Fatalf("want %d records: %v", records, err)
	}
}

// verdict wants nothing lost, nothing out of order, and no more duplicates than these.
func (b *bed) verdict(duplicates int) {
	b.t.Helper()
	report := b.judge(check.History{})
	b.t.Logf("%s", report)
	if err := report.Err(); err != nil {
		b.t.Error(err)
	}
	if report.Duplicates > duplicates {
		b.t.Errorf("%d duplicates, want at most %d", report.Duplicates, duplicates)
	}
}

// The primary dies and its standby, which lacks the latest marks, takes its place under another address. What was
// marked in the lost tail is sent once more, and all that comes afterwards.
func TestFailoverTakesMarksBack(t *testing.T) {
	t.Parallel()
	p := ownPostgres(t, servers.PostgresConfig{})
	b := bedIn(t, "e2e"+random(), p.URL(), oneBroker(t), "order.confirmed")
	b.migrate()
	b.db.Close()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	standby, err := p.Standby(ctx)
	b.ok(err)
	t.Cleanup(func() { remove(t, standby) })
	b.db = connect(t, p.URL())
	second := connect(t, standby.URL())

	spec := b.relay()
	u, err := url.Parse(p.URL())
	b.ok(err)
	// The standby first: it takes no writes, so the relay must pass it by as long as the other lives.
	u.Host = fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", standby.Port(), p.Port())
	spec.Env = append(spec.Env, "DATABASE_URL="+u.String()+"&target_session_attrs=read-write")
	relay := b.start(spec)
	b.awaitShares(1)
	arrivals := b.follow()

	const events = 300
	relay.Freeze() // until its marks can't reach the standby
	b.writeMany(events, 20)
	var wrote string
	b.ok(b.db.QueryRow(b.ctx, `select pg_current_wal_lsn()::text`).Scan(&wrote))
	b.await(20*time.Second, "the standby has the events", func() (has bool) {
		b.ok(second.QueryRow(b.ctx, `select pg_last_wal_replay_lsn() >= $1::pg_lsn`, wrote).Scan(&has))
		return has
	})
	_, err = second.Exec(b.ctx, `alter system set primary_conninfo = ''`)
	b.ok(err)
	_, err = second.Exec(b.ctx, `select pg_reload_conf()`)
	b.ok(err)
	b.await(20*time.Second, "the standby receives no more", func() (none bool) {
		b.ok(second.QueryRow(b.ctx, `select not exists (select from pg_stat_wal_receiver)`).Scan(&none))
		return none
	})
	relay.Thaw()
	b.expect(arrivals, events, 20*time.Second)
	b.drain(10 * time.Second)
	b.letPass(3 * time.Second) // for the relay to find these ids final, and to begin its reads beyond them

	b.ok(p.Kill())
	_, err = second.Exec(b.ctx, `select pg_promote()`)
	b.ok(err)
	failed := time.Now()
	b.db.Close()
	b.db = second
	b.writeMany(events, 20)
	b.drain(20 * time.Second)
	t.Logf("all is published %s after the promotion", time.Since(failed).Round(100*time.Millisecond))
	b.stop(relay)
	b.verdict(events)
	if report := b.judge(check.History{}); report.Duplicates < events {
		t.Errorf("%d duplicates: the marks were not lost, so this shows nothing", report.Duplicates)
	}
}

// A disk without room for marks stops the relay, not for good, and costs no duplicate: what Kafka has acknowledged
// waits in memory to be marked.
func TestDatabaseDiskIsFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 160<<20)
	p := ownPostgres(t, servers.PostgresConfig{Dir: filepath.Join(disk, "server"), Settings: map[string]string{
		"min_wal_size": "32MB", "max_wal_size": "32MB", "shared_buffers": "16MB"}})
	b := makeBed(t, p.URL(), oneBroker(t), "order.confirmed")
	b.migrate()
	relay := b.start(b.relay("POSTHASTE_RELAY_BATCH_MAX=2000"))
	b.awaitShares(1)
	arrivals := b.follow()
	b.write("warm")
	b.expect(arrivals, 1, 20*time.Second)

	ballast := filepath.Join(disk, "ballast")
	relay.Freeze()
	b.writeMany(20_000, 50) // whose marks need more pages than the table has left
	fill(t, ballast)
	relay.Thaw()
	b.await(30*time.Second, "the relay says that the disk is full", func() bool {
		return strings.Contains(relay.LogTail(1000), "make room on the disk")
	})
	b.letPass(span(2*time.Second, time.Minute))
	b.ok(os.Remove(ballast))
	if !p.Alive() || servers.PingPostgres(b.ctx, p.URL()) != nil { // it may have had no room to log its own changes
		b.ok(p.Restart(b.ctx))
		b.db.Reset()
	}
	b.drain(30 * time.Second)
	b.stop(relay)
	b.verdict(0)
}

// smallDisk mounts a file system of so many bytes, which takes a right that not everybody has.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "posthaste-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	mountDisk(t, dir, size)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fill writes a file until there is no room left.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// A password that changes while relays run is read from its file again when a connection has to be made anew.
func TestPasswordChangesInItsFile(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	role := "r_" + b.unique
	b.exec("create role " + role + " login password 'sesame'")
	t.Cleanup(func() { _, _ = b.db.Exec(context.Background(), "drop owned by "+role+"; drop role "+role) })
	b.exec(b.grants("--writer", role, "--relay", role, "--operator", role))
	file := filepath.Join(t.TempDir(), "url")
	b.ok(os.WriteFile(file, []byte(as(t, b.dsn, role)+"\n"), 0o600))

	spec := b.relay()
	spec.Env = slices.DeleteFunc(spec.Env, func(pair string) bool { return strings.HasPrefix(pair, "DATABASE_URL=") })
	spec.Env = append(spec.Env, "DATABASE_URL_FILE="+file)
	relay := b.start(spec)
	b.awaitShares(1)
	b.exec("alter role " + role + " password 'openup'")
	b.exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
	b.await(10*time.Second, "the relay says that its password is refused", func() bool {
		return strings.Contains(relay.LogTail(1000), "password authentication failed")
	})
	text := strings.Replace(as(t, b.dsn, role), ":sesame@", ":openup@", 1)
	b.ok(os.WriteFile(file, []byte(text), 0o600))
	b.writeMany(100, 10)
	b.finish(relay)
	for _, secret := range []string{"sesame", "openup"} {
		if strings.Contains(relay.LogTail(1000), secret) {
			t.Errorf("the log holds the password %s", secret)
		}
	}
}
