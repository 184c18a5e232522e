package e2e_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/testbed/servers"
)

// behindPooler makes a bed, and a pooler between it and its relays.
func behindPooler(t *testing.T, mode string, size int) (*bed, *servers.PgBouncer) {
	t.Helper()
	server := testenv.Require(t, pg15)
	b := makeBed(t, server, oneBroker(t), "order.confirmed")
	b.migrate()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	pooler, err := servers.StartPgBouncer(ctx, servers.PgBouncerConfig{Server: server, PoolMode: mode, PoolSize: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, pooler) })
	return b, pooler
}

// by returns the connection string that leads there.
func (b *bed) by(pooler *servers.PgBouncer) string {
	b.t.Helper()
	u, err := url.Parse(b.dsn)
	b.ok(err)
	u.Host = pooler.Addr()
	return u.String()
}

// Three relays share two sessions of the server, and one of them is killed, one frozen, while the pooler is paused,
// resumed and reloaded. No statement meets that of another, no session is left in a broken transaction, a pause is over
// at once, since no transaction is kept open, and order holds although only the lease decides who owns a lane:
// cbcoutinho/nextcloud-mcp-server#1032, rust-postgres/rust-postgres#1054, skypilot-org/skypilot#10347.
func TestBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	b, pooler := behindPooler(t, "transaction", 2)
	strikes := []strike{
		{at: 2 * time.Second, harm: kill},
		{at: 3 * time.Second, harm: freeze, target: 1, length: 7 * time.Second}, // longer than the lease
	}
	if span(0, 1) > 0 {
		strikes = schedule(seedOf(t), 10*time.Minute, []harm{kill, terminate, freeze})
	}
	out := trial{
		relay:  b.relay("DATABASE_URL=" + b.by(pooler)),
		relays: 3,
		writers: []load.Population{{
			Prefix: "locked-", Keys: 50, Locked: true, Workers: 10, Rate: 100, Topics: b.topics, Seed: seedOf(t),
		}},
		load:    span(11*time.Second, 10*time.Minute),
		strikes: strikes,
		outage: func() {
			for _, command := range []string{"PAUSE", "RESUME", "RELOAD", "PAUSE", "RESUME"} {
				ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
				b.ok(pooler.Admin(ctx, command))
				cancel()
			}
			b.noneBroken()
		},
	}.run(t, b)
	t.Logf("%s", out)
	if err := out.Err(); err != nil {
		t.Error(err)
	}
	if out.Duplicates > out.allowed {
		t.Errorf("%d duplicates, want at most %d", out.Duplicates, out.allowed)
	}
	b.noneBroken()
	b.noneConfused(pooler)
}

// noneBroken wants no session of the server in a transaction that has failed.
func (b *bed) noneBroken() {
	b.t.Helper()
	var broken int
	b.ok(b.db.QueryRow(b.ctx, `
		select count(*) from pg_stat_activity
		where datname = current_database() and state = 'idle in transaction (aborted)'`).Scan(&broken))
	if broken > 0 {
		b.t.Errorf("%d sessions are idle in a transaction that has failed", broken)
	}
}

// noneConfused wants no client to have met what another one prepared, or to have lost what it prepared itself.
func (b *bed) noneConfused(pooler *servers.PgBouncer) {
	b.t.Helper()
	log, err := pooler.Log()
	b.ok(err)
	for _, sign := range []string{"prepared statement", "26000", "42P05", "08P01"} {
		if strings.Contains(log, sign) {
			b.t.Errorf("the pooler's log holds %q", sign)
		}
	}
}

// What a relay says of the pooler, and how long the take-over of a killed one's lanes takes, by the lease alone; in
// session mode too, for a pooler that keeps sessions apart can't be told from one that does not.
func TestTakeOverBehindAPooler(t *testing.T) {
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b, pooler := behindPooler(t, mode, 10)
			spec := b.relay("DATABASE_URL=" + b.by(pooler))
			first, second := b.start(spec), b.start(spec)
			b.awaitShares(2)
			arrivals := b.follow()
			const events = 256
			b.writeMany(events, events)
			b.expect(arrivals, events, 30*time.Second)
			for _, relay := range []string{first.LogTail(100), second.LogTail(100)} {
				if !strings.Contains(relay, "pooler stands before PostgreSQL") ||
					strings.Contains(relay, "PostgreSQL fails") {
					t.Errorf("want a word on the pooler, and no failure; a relay says\n%s", relay)
				}
			}
			gone := time.Now()
			first.Kill()
			b.writeMany(events, events)
			ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
			defer cancel()
			all, err := arrivals.Wait(ctx, func(all []check.Arrival) bool { return len(distinct(all)) == 2*events })
			b.ok(err)
			took := all[len(all)-1].At.Sub(gone)
			t.Logf("all lanes flow %s after the kill", took.Round(time.Millisecond))
			if took > 10*time.Second {
				t.Errorf("take-over took %s, want at most 10s", took)
			}
			b.drain(10 * time.Second)
			b.stop(second)
			b.verdict(2 * batchMax)
			b.noneConfused(pooler)
		})
	}
}
