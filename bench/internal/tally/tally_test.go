package tally

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
)

func TestTally(t *testing.T) {
	t.Parallel()
	dsn := testenv.Require(t, testenv.DatabaseURL)
	count, err := Start(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer count.Close()
	ctx := t.Context()
	// The client that asks for TLS first is told that there is none.
	db, err := pgx.Connect(ctx, strings.Replace(count.DSN(), "sslmode=disable", "sslmode=prefer", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	before := count.Statements()
	if _, err := db.Exec(ctx, "select 1"); err != nil { // simple
		t.Fatal(err)
	}
	var sum int
	for range 3 { // prepared
		if err := db.QueryRow(ctx, "select $1::int + 1", 1).Scan(&sum); err != nil || sum != 2 {
			t.Fatal(sum, err)
		}
	}
	var batch pgx.Batch // in one round trip
	batch.Queue("select 2")
	batch.Queue("select repeat('x', $1)", 100_000)
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		t.Fatal(err)
	}
	if n := count.Statements() - before; n != 6 {
		t.Errorf("%d statements were counted, want 6", n)
	}
	if _, err := Start("host=localhost"); err == nil {
		t.Error("an address that is no URL is not refused")
	}
}
