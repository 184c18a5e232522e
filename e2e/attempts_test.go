package e2e_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"posthaste.dev/posthaste/e2e/load"
	"posthaste.dev/posthaste/e2e/process"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/testbed/servers"
)

// However long Kafka or PostgreSQL is away, no event is given up. Events wait when it begins and go on to come; once it
// is over, all drain by themselves, in order, and the log does not say it once an event.
func TestOutagesSpendNoAttempts(t *testing.T) {
	t.Parallel()
	t.Run("Kafka is away", func(t *testing.T) {
		b := newBed(t, pg15, ownBroker, "order.confirmed")
		b.migrate()
		away := span(8*time.Second, 10*time.Minute)
		b.sitOut(away, b.relay(), func() {
			outages[0].during(b, ownKafka(t), func() { b.letPass(away) })
		})
	})
	t.Run("the topic may not be written", func(t *testing.T) {
		b := newBed(t, pg15, ownBroker, "order.confirmed")
		b.migrate()
		away := span(8*time.Second, 5*time.Minute)
		login := kafka.Config{
			Brokers: []string{ownKafka(t).broker.Listener(scramListener)},
			SASL:    kafka.SASLScramSHA256, Username: secureUser, Password: ownSecret,
		}
		b.sitOut(away, b.relay(kafkaEnv(login)...), func() {
			allowed := b.allow("somebody", kadm.OpWrite, b.topics...)
			b.letPass(away)
			allowed()
		})
	})
	t.Run("the database is read-only", func(t *testing.T) {
		b := ownDatabase(t)
		b.migrate()
		away := span(8*time.Second, 5*time.Minute)
		relay := b.relay()
		// The writers still write: they stand for what was committed before, and what comes when it is over.
		b.db = connect(t, b.dsn+"&options=-c%20default_transaction_read_only%3Doff")
		b.sitOut(away, relay, func() {
			b.exec("alter system set default_transaction_read_only = on")
			b.exec("select pg_reload_conf()")
			b.letPass(away)
			b.exec("alter system reset default_transaction_read_only")
			b.exec("select pg_reload_conf()")
		})
	})
}

// ownDatabase makes a bed on a database server of the test's own.
func ownDatabase(t *testing.T) *bed {
	t.Helper()
	return makeBed(t, ownPostgres(t, servers.PostgresConfig{}).URL(), oneBroker(t), "order.confirmed")
}

// sitOut runs a relay under load through an outage and judges.
func (b *bed) sitOut(away time.Duration, relay process.Spec, outage func()) {
	b.t.Helper()
	b.writeMany(5000, 300)
	out := trial{
		relay:  relay,
		relays: 1,
		writers: []load.Population{{
			Prefix: "locked-", Keys: 100, Locked: true, Workers: 20, Rate: 50.0 / 3, // of three events on average
			Topics: b.topics, Seed: seedOf(b.t),
		}},
		load:   away + 2*time.Second,
		outage: func() { b.letPass(time.Second); outage() },
	}.run(b.t, b)
	b.t.Logf("%s; away for %s; %d lines logged", out, away, out.logged)
	if err := out.Err(); err != nil {
		b.t.Error(err)
	}
	if out.Duplicates > 2*batchMax {
		b.t.Errorf("%d duplicates, want at most %d", out.Duplicates, 2*batchMax)
	}
	// A line for each kind of trouble at its beginning, its end, and now and then meanwhile.
	if most := 60 + int(away.Seconds()/2); out.logged > most {
		b.t.Errorf("%d lines logged, want at most %d", out.logged, most)
	}
}
