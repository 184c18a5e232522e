package main

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
)

// What a server has spent never gets less, whatever sessions come and go meanwhile, and holds what a session has spent
// that has ended.
func TestServerTime(t *testing.T) {
	t.Parallel()
	url := testenv.Require(t, testenv.DatabaseURL)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	ctx := t.Context()
	connect := func() (*pgx.Conn, int) {
		db, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return db, int(db.PgConn().PID())
	}
	db, pid := connect()
	defer db.Close(ctx)
	if !isServer(pid) {
		t.Skip("the server runs elsewhere")
	}
	first, ok := serverTime(pid)
	last := first
	for range 10 {
		other, _ := connect()
		const work = `do $$ begin perform count(*) from generate_series(1, 200000); end $$`
		if _, err := other.Exec(ctx, work); err != nil {
			t.Fatal(err)
		}
		other.Close(ctx)
		now, still := serverTime(pid)
		if !ok || !still || now < last {
			t.Fatalf("known %v, then %v: %s after %s", ok, still, now, last)
		}
		last = now
	}
	if last-first < 50*time.Millisecond {
		t.Errorf("ten sessions took %s", last-first)
	}
}

func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	self := os.Getpid()
	if memory := peakMemory(self); memory < 1<<20 || memory > 1<<40 {
		t.Errorf("peak memory %d", memory)
	}
	before, err := ranFor(self)
	if err != nil || before <= 0 {
		t.Fatalf("ran for %s, %v", before, err)
	}
	const none = 1 << 30
	if _, err := ranFor(none); err == nil || peakMemory(none) != 0 || isServer(self) {
		t.Error("a process that is not there is found, or this one is taken for PostgreSQL")
	}
}
