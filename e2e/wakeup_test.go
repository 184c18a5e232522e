package e2e_test

import (
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
	"posthaste.dev/posthaste/testbed/servers"
)

// A lone event does not wait for the interval where the table has the trigger. Its writer needs no rights on the side
// tables, and the relay none that it hasn't without; the trigger goes when it is told to, and with the outbox.
func TestLoneEventsWakeTheRelay(t *testing.T) {
	t.Parallel()
	p := ownPostgres(t, servers.PostgresConfig{Settings: map[string]string{"max_prepared_transactions": "0"}})
	b := makeBed(t, p.URL(), oneBroker(t), "order.confirmed")
	b.migrate("--wake-up")
	b.exec("create role writer login password 'sesame'; create role relay login password 'sesame'")
	b.exec(b.grants("--writer", "writer", "--relay", "relay", "--operator", "relay"))
	spec := b.relay("OUTBOX_RELAY_INTERVAL_SECONDS=600")
	spec.Env = append(spec.Env, "DATABASE_URL="+as(t, b.dsn, "relay"))
	relays := []*process.Process{b.start(spec), b.start(spec)}
	b.awaitShares(2)
	arrivals := b.follow()
	writer := connect(t, as(t, b.dsn, "writer"))
	for n := range 8 {
		b.await(30*time.Second, "the relays sleep", func() (asleep bool) {
			b.ok(b.db.QueryRow(b.ctx, `
				select count(*) = 2 from pg_locks where locktype = 'advisory' and mode = 'ShareLock'
				and objid = $1::regclass`, table).Scan(&asleep))
			return asleep
		})
		_, err := writer.Exec(b.ctx, insertAlone, b.topics[0], string(rune('a'+n)))
		b.ok(err)
		committed := time.Now()
		b.expect(arrivals, n+1, 20*time.Second)
		t.Logf("a lone event arrives %s after its commit", time.Since(committed).Round(time.Millisecond))
	}
	for _, r := range relays {
		b.stop(r)
	}
	if err := b.judge(check.History{}).Err(); err != nil {
		t.Error(err)
	}

	triggers := func() (n int) {
		b.ok(b.db.QueryRow(b.ctx, "select count(*) from pg_trigger where not tgisinternal").Scan(&n))
		return n
	}
	for _, step := range []struct {
		args []string
		want int
	}{
		{[]string{"migrate", "up", "--wake-up=false"}, 0},
		{[]string{"migrate", "up", "--wake-up"}, 1},
		{[]string{"migrate", "up"}, 1},
		{[]string{"migrate", "down"}, 0},
	} {
		b.command(step.args...)
		if n := triggers(); n != step.want {
			t.Errorf("after %v there are %d triggers, want %d", step.args, n, step.want)
		}
	}
}
