package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/kafka"
)

func TestSecureConnections(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	t.Run("delivered", s.testDeliveries)
	t.Run("forbidden topics", s.testForbiddenTopics)
	t.Run("refused by Kafka", s.testKafkaRefusals)
	t.Run("refused by PostgreSQL", s.testPostgresRefusals)
}

// Every way to speak to the servers that is supported carries an event.
func (s *secured) testDeliveries(t *testing.T) {
	trusted := "&sslrootcert=" + s.authority.file
	tests := map[string]struct {
		kafka    kafka.Config
		postgres string
	}{
		"TLS":                   {s.login(tlsListener, kafka.SASLNone), "sslmode=verify-full" + trusted},
		"TLS and PLAIN":         {s.login(saslListener, kafka.SASLPlain), "sslmode=require"},
		"TLS and SCRAM-SHA-256": {s.login(saslListener, kafka.SASLScramSHA256), "sslmode=verify-ca" + trusted},
		"TLS and SCRAM-SHA-512": {s.login(saslListener, kafka.SASLScramSHA512), "sslmode=prefer"},
		"SCRAM-SHA-256":         {s.login(scramListener, kafka.SASLScramSHA256), "sslmode=disable"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bed(t, "order.confirmed")
			b.write("k")
			process := b.start(b.relay(append(kafkaEnv(test.kafka), databaseEnv(t, b.dsn, "", "", test.postgres))...))
			b.expect(b.follow(), 1, 20*time.Second)
			if test.postgres != "sslmode=disable" {
				b.awaitTLS()
			}
			b.drain(10 * time.Second)
			b.stop(process)
			if err := b.judge(check.History{}).Err(); err != nil {
				t.Error(err)
			}
			if strings.Contains(process.LogTail(1000), s.secret) {
				t.Error("the log holds the password")
			}
		})
	}
}

// awaitTLS waits until all sessions of relays on the bed's database are encrypted.
func (b *bed) awaitTLS() {
	b.t.Helper()
	b.await(5*time.Second, "the relay's sessions are encrypted", func() bool {
		var plain, encrypted int
		err := b.db.QueryRow(b.ctx, `
			select count(*) filter (where not ssl), count(*) filter (where ssl)
			from pg_stat_ssl join pg_stat_activity using (pid)
			where datname = current_database() and application_name like 'posthaste%'`).Scan(&plain, &encrypted)
		if err != nil {
			b.t.Fatal(err)
		}
		return plain == 0 && encrypted > 0
	})
}

// Topics that the relay's user may not write, or may not even see, stop their own events and no others. Once the rights
// are there, the events arrive.
func (s *secured) testForbiddenTopics(t *testing.T) {
	b := s.bed(t, "open", "visible", "hidden")
	seen := b.allow(secureUser, kadm.OpDescribe, b.topics[1])
	written := b.allow("somebody", kadm.OpWrite, b.topics[2])
	for _, topic := range b.topics {
		b.exec(`
			insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			values (gen_random_uuid(), 'Order', 'k', 'order.confirmed.v1', '{"n": 1}', $1, 'k')`, topic)
	}
	process := b.start(b.relay(kafkaEnv(s.login(saslListener, kafka.SASLPlain))...))
	arrivals := b.follow()
	if first := b.expect(arrivals, 1, 20*time.Second); first[0].Topic != b.topics[0] {
		t.Errorf("the first event to arrive is of %s, want %s", first[0].Topic, b.topics[0])
	}
	for _, topic := range b.topics[1:] {
		reason := "topic " + topic + " may not be written by this client; grant it"
		b.await(10*time.Second, "the relay says why events of "+topic+" wait", func() bool {
			return strings.Contains(process.LogTail(1000), reason)
		})
	}
	seen()
	written()
	b.expect(arrivals, 3, 30*time.Second)
	b.drain(10 * time.Second)
	b.stop(process)
	if err := b.judge(check.History{}).Err(); err != nil {
		t.Error(err)
	}
}
