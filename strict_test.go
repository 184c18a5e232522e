package posthaste_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/posthastetest"
)

// Two transactions write one key: the second waits for the end of the first, and its id is drawn only then. Without
// strict mode it does not wait, which is what the test must be able to show.
func TestStrictWritersOfAKeyWait(t *testing.T) {
	t.Parallel()
	for _, strictly := range []bool{true, false} {
		outbox := posthastetest.New(t)
		w := newWriter(t, outbox, func(c *posthaste.Config) { c.Strict = strictly })
		ctx := timeLimit(t)
		first := begin(t, outbox)
		if err := w.Write(ctx, first, confirmed("k1"), confirmed("k2")); err != nil {
			t.Fatal(err)
		}
		drawn := sequence(t, outbox)

		second := begin(t, outbox)
		done := make(chan error, 1)
		go func() { done <- w.Write(ctx, second, confirmed("k2"), confirmed("other")) }()
		if !strictly {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if now := sequence(t, outbox); now == drawn {
				t.Fatalf("the writer without strict mode drew no id while the first was open")
			}
			continue
		}
		awaitWaiting(t, outbox, done)
		if now := sequence(t, outbox); now != drawn {
			t.Errorf("the waiting writer has drawn an id: the sequence went from %d to %d", drawn, now)
		}
		// Another key goes ahead.
		if err := write(ctx, outbox, w, confirmed("free")); err != nil {
			t.Fatal(err)
		}
		if err := first.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-done, second.Commit(ctx)); err != nil {
			t.Fatal(err)
		}
		k2 := posthastetest.Want{Key: "k2"}
		outbox.RequireWritten(t, outbox.Pool, k2, k2, posthastetest.Want{Key: "free"})
	}
}

// The lock can be taken from any language by the documented statement.
func TestStrictLockInPlainSQL(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox, strict)
	ctx := timeLimit(t)
	const lock = `select pg_advisory_xact_lock(-1886352244, (hashtext($1::text) << 10) | (hashtext($2::text) & 1023))`

	tx := begin(t, outbox)
	if _, err := tx.Exec(ctx, lock, outbox.Table, "k1"); err != nil {
		t.Fatal(err)
	}
	waiting := begin(t, outbox)
	done := make(chan error, 1)
	go func() { done <- w.Write(ctx, waiting, confirmed("k1")) }()
	awaitWaiting(t, outbox, done)
	if err := errors.Join(tx.Commit(ctx), <-done); err != nil {
		t.Fatal(err)
	}

	// Another outbox in the same database has other locks.
	neighbour := posthastetest.New(t)
	if err := write(ctx, neighbour, newWriter(t, neighbour, strict), confirmed("k1")); err != nil {
		t.Fatal(err)
	}
}

// One call takes its locks in one order, whatever the order of its events, so that calls can't deadlock.
func TestStrictLocksAscend(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox, strict)
	ctx := timeLimit(t)
	holder := begin(t, outbox)
	var highest string
	var stripes int
	err := holder.QueryRow(ctx, `
		with l as (select k::text as key, (hashtext($1::text) << 10) | (hashtext(k::text) & 1023) as lock
		           from generate_series(1, 50) as k),
		     h as (select key, lock from l order by lock desc limit 1)
		select h.key, (select count(distinct lock) from l) from h, pg_advisory_xact_lock(-1886352244, h.lock)`,
		outbox.Table).Scan(&highest, &stripes)
	if err != nil {
		t.Fatal(err)
	}
	events := []posthaste.Event{confirmed(highest)} // the one it has to wait for stands first
	for k := range 50 {
		events = append(events, confirmed(fmt.Sprint(k+1)))
	}
	waiting := begin(t, outbox)
	done := make(chan error, 1)
	go func() { done <- w.Write(ctx, waiting, events...) }()
	awaitWaiting(t, outbox, done)
	var held int
	err = outbox.Pool.QueryRow(ctx, `
		select count(*) from pg_locks where locktype = 'advisory' and granted
		and pid in (select pid from pg_locks where locktype = 'advisory' and not granted)
		and classid = $1::int4::oid
		and pid in (select pid from pg_stat_activity where application_name = $2)`,
		posthaste.StrictLockClass, outbox.Schema).Scan(&held)
	if err != nil || held != stripes-1 {
		t.Errorf("while it waits for the last of %d locks it holds %d, %v", stripes, held, err)
	}
	if err := errors.Join(holder.Commit(ctx), <-done); err != nil {
		t.Fatal(err)
	}
}

// Two transactions with two calls each, in opposite order, deadlock. PostgreSQL ends one; the other goes on.
func TestStrictDeadlockIsRetriable(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	w := newWriter(t, outbox, strict)
	ctx := timeLimit(t)
	first, second := begin(t, outbox), begin(t, outbox)
	if err := errors.Join(w.Write(ctx, first, confirmed("a")), w.Write(ctx, second, confirmed("b"))); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	finish := func(tx pgx.Tx, key string) {
		err := w.Write(ctx, tx, confirmed(key))
		if err != nil {
			err = errors.Join(err, tx.Rollback(ctx))
		}
		done <- err
	}
	go finish(first, "b")
	go finish(second, "a")
	one, other := <-done, <-done
	if one == nil {
		one, other = other, one
	}
	if !errors.Is(one, posthaste.ErrDeadlock) || !posthaste.Retriable(one) || other != nil {
		t.Errorf("the writers ended with\n%v\nand\n%v", one, other)
	}
}

// sequence tells how many ids were drawn, committed or not.
func sequence(t *testing.T, outbox *posthastetest.Outbox) (drawn int64) {
	t.Helper()
	var name string
	err := outbox.Pool.QueryRow(t.Context(), `select pg_get_serial_sequence($1, 'id')`, outbox.Table).Scan(&name)
	if err == nil {
		last := `select case when is_called then last_value else 0 end from ` + name
		err = outbox.Pool.QueryRow(t.Context(), last).Scan(&drawn)
	}
	if err != nil {
		t.Fatal(err)
	}
	return drawn
}

// awaitWaiting returns once a writer of this outbox waits for a lock of strict mode.
func awaitWaiting(t *testing.T, outbox *posthastetest.Outbox, done <-chan error) {
	t.Helper()
	const waiting = `
		select exists (select from pg_locks l join pg_stat_activity a using (pid)
		               where l.locktype = 'advisory' and not l.granted and a.application_name = $1
		                 and l.classid = $2::int4::oid)`
	for {
		var found bool
		err := outbox.Pool.QueryRow(t.Context(), waiting, outbox.Schema, posthaste.StrictLockClass).Scan(&found)
		if err != nil {
			t.Fatal(err)
		}
		if found {
			return
		}
		select {
		case err := <-done:
			t.Fatalf("the writer did not wait: %v", err)
		default:
		}
	}
}
