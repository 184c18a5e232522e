package relay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// sleepers counts the relays that writers may wake: they hold the lock shared.
const sleepers = `
select count(*) from pg_locks
where locktype = 'advisory' and classid = (-2002873189)::oid and objid = $1::regclass and objsubid = 2 and granted
  and mode = 'ShareLock' and database = (select oid from pg_database where datname = current_database())`

// newSleeper is a rig whose relay polls so seldom that what arrives soon came by a wake-up.
func newSleeper(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	r := newRig(t, func(r *rig) {
		r.cfg.Interval, r.store.CheckInterval = time.Hour, 50*time.Millisecond
		if change != nil {
			change(r)
		}
	})
	r.wakeUp()
	return r
}

// wakeUp makes the trigger as migrate prints it, which itself refuses to on a server where transactions are prepared.
func (r *rig) wakeUp() {
	r.t.Helper()
	r.exec("create trigger posthaste_wake_up after insert on " + r.Table +
		" for each statement execute function " + r.SideSchema + ".wake_up()")
}

func (r *rig) untilAsleep(relays int) {
	r.t.Helper()
	r.until("asleep", func() bool {
		var n int
		r.must(r.Pool.QueryRow(r.t.Context(), sleepers, r.Table).Scan(&n))
		return n == relays
	})
}

func TestWritersWakeASleepingRelay(t *testing.T) {
	r := newSleeper(t, nil).start()
	for range 3 {
		r.untilAsleep(1)
		r.write("t", "a", 1)
		r.untilDrained()
		r.untilAsleep(0)
	}
}

// Who wrote before the relay began to sleep wakes nobody, and commits when it likes. So does a transaction whose
// snapshot is older than the sleep, except that it writes later and does wake.
func TestWritersThatBeganBeforeTheSleep(t *testing.T) {
	r := newSleeper(t, nil)
	early := r.begin()
	_, err := early.Exec(t.Context(), insert, "t", "early", 1)
	r.must(err)
	frozen, err := r.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
	r.must(err)
	_, err = frozen.Exec(t.Context(), "select count(*) from outbox_event")
	r.must(err)

	r.start()
	r.untilAsleep(1)
	r.must(early.Commit(t.Context()))
	r.until("the early one is sent", func() bool { return r.count("t") == 1 })

	r.untilAsleep(1)
	_, err = frozen.Exec(t.Context(), insert, "t", "frozen", 1)
	r.must(err)
	r.must(frozen.Commit(t.Context()))
	r.until("the other one is sent", func() bool { return r.count("t") == 2 })
}

// While the relay is awake, writers say nothing.
func TestBusyRelayIsNotWoken(t *testing.T) {
	r := newSleeper(t, nil)
	ear, err := pgx.Connect(t.Context(), r.URL)
	r.must(err)
	defer ear.Close(t.Context())
	var oid uint32
	r.must(r.Pool.QueryRow(t.Context(), "select $1::regclass::oid", r.Table).Scan(&oid))
	heard := make(chan int, 1)
	ctx, stop := context.WithCancel(t.Context())
	_, err = ear.Exec(t.Context(), "listen "+pgx.Identifier{fmt.Sprint("posthaste_", oid)}.Sanitize())
	r.must(err)
	go func() {
		n := 0
		for {
			if _, err := ear.WaitForNotification(ctx); err != nil {
				heard <- n
				return
			}
			n++
		}
	}()

	r.start()
	r.untilAsleep(1)
	const events = 300
	for n := range events {
		r.write("t", "a", 1)
		if n == 0 {
			r.untilAsleep(0)
		}
	}
	r.untilDrained()
	stop()
	if n := <-heard; n == 0 || n > 3 {
		t.Errorf("%d of %d writers called, want the first one", n, events)
	}
}

// Whatever connection breaks while the relay sleeps, what is written then or later is sent.
func TestSleepingRelayLosesItsConnections(t *testing.T) {
	r := newSleeper(t, func(r *rig) {
		r.store.Conn.RuntimeParams["application_name"] = r.Schema + "_relay"
	}).start()
	for n := range 3 {
		r.untilAsleep(1)
		r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1`, r.Schema+"_relay")
		r.write("t", "a", 1)
		r.until("sent", func() bool { return r.count("t") == n+1 })
		r.untilDrained()
	}
}

// The trigger may come and go while relays run.
func TestWakeUpComesAndGoes(t *testing.T) {
	r := newSleeper(t, func(r *rig) { r.cfg.Interval = 20 * time.Millisecond })
	drop := "drop trigger posthaste_wake_up on " + r.Table
	r.exec(drop)
	r.start()
	r.until("at work", func() bool { return r.relay.Stats().Ready })
	for range 3 {
		r.wakeUp()
		r.untilAsleep(1)
		r.exec(drop)
		r.untilAsleep(0)
	}
	r.write("t", "a", 1)
	r.untilDrained()
}

// Of several relays each is woken, and each sends what is its own.
func TestSeveralSleepers(t *testing.T) {
	r := newSleeper(t, nil)
	for range 3 {
		other := newRigIn(t, r.Outbox, func(o *rig) { o.cfg, o.store, o.kafka = r.cfg, r.store, r.kafka })
		other.start()
	}
	r.untilAsleep(3)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r.untilAsleep(3)
		r.write("t", key, 1)
		r.untilDrained()
	}
	r.inOrder(8)
}

// Where the relay sleeps nobody can be harmed by it: not by a trigger without relays, not by a statement that is
// cancelled, and the lock is nobody's afterwards.
func TestWritersAreNotHarmedByTheWakeUp(t *testing.T) {
	r := newSleeper(t, nil)
	const locks = `select count(*) from pg_locks where locktype = 'advisory' and classid = (-2002873189)::oid`
	tx := r.begin()
	for range 100 {
		_, err := tx.Exec(t.Context(), insert, "t", "a", 1)
		r.must(err)
	}
	var n int
	r.must(tx.QueryRow(t.Context(), locks+` and pid = pg_backend_pid()`).Scan(&n))
	if n > 0 {
		t.Errorf("a writer holds %d locks", n)
	}
	r.must(tx.Commit(t.Context()))
}
