package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/testbed/servers"
)

// secured is a broker and a database of the test's own: the shared ones speak no TLS.
type secured struct {
	authority, stranger *authority // who signed the servers' certificates, and who did not
	broker              *servers.Broker
	postgres            *servers.Postgres
	secret              string // password of the user relay
}

const secureUser = "relay"

// The broker's listeners beside the plain one.
const (
	tlsListener     = "TLS"
	expiredListener = "EXPIRED" // TLS with a certificate of yesterday
	saslListener    = "SASL"    // TLS and every mechanism
	scramListener   = "SCRAM"   // SCRAM-SHA-256 alone, no TLS
)

func startSecured(t *testing.T) *secured {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := &secured{authority: newAuthority(t), stranger: newAuthority(t), secret: "secret" + random()}
	good := s.authority.issue(t, time.Now().Add(time.Hour))
	expired := s.authority.issue(t, time.Now().Add(-time.Hour))
	var group errgroup.Group
	group.Go(func() error {
		k, err := servers.StartKafka(ctx, servers.KafkaConfig{
			Brokers: 1, Brief: true,
			Listeners: []servers.Listener{
				{Name: tlsListener, TLS: good},
				{Name: expiredListener, TLS: expired},
				{Name: saslListener, TLS: good, SASL: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}},
				{Name: scramListener, SASL: []string{"SCRAM-SHA-256"}},
			},
			Users:      map[string]string{secureUser: s.secret},
			Properties: guarded,
		})
		if err == nil {
			t.Cleanup(func() { remove(t, k) })
			s.broker = k.Brokers[0]
		}
		return err
	})
	group.Go(func() error {
		p, err := servers.StartPostgres(ctx, servers.PostgresConfig{Major: 15, TLS: good})
		if err == nil {
			t.Cleanup(func() { remove(t, p) })
			s.postgres = p
		}
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return s
}

func remove(t *testing.T, server interface{ Remove() error }) {
	if err := server.Remove(); err != nil {
		t.Error(err)
	}
}

// bed makes a database with an outbox and topics, on the private servers.
func (s *secured) bed(t *testing.T, topics ...string) *bed {
	t.Helper()
	list := []string{s.broker.Addr}
	b := makeBed(t, s.postgres.URL(), brokers{addrs: list, relays: list}, topics...)
	b.migrate()
	return b
}

// login returns the settings to come by a listener as the user relay.
func (s *secured) login(listener, mechanism string) kafka.Config {
	c := kafka.Config{Brokers: []string{s.broker.Listener(listener)}, SASL: mechanism,
		Username: secureUser, Password: s.secret}
	if listener != scramListener {
		c.TLS, c.CAFile = true, s.authority.file
	}
	if mechanism == kafka.SASLNone {
		c.Username, c.Password = "", ""
	}
	return c
}

// kafkaEnv is the configuration as the command takes it.
func kafkaEnv(c kafka.Config) []string {
	tls := "off"
	if c.TLS {
		tls = "on"
	}
	return []string{
		"KAFKA_BROKERS=" + c.Brokers[0],
		"POSTHASTE_KAFKA_TLS=" + tls,
		"POSTHASTE_KAFKA_CA_FILE=" + c.CAFile,
		"POSTHASTE_KAFKA_SASL=" + c.SASL,
		"POSTHASTE_KAFKA_USERNAME=" + c.Username,
		"POSTHASTE_KAFKA_PASSWORD=" + c.Password,
	}
}

// databaseEnv is the address of a database with other parts: host and password where they are not empty, and TLS as the
// query says.
func databaseEnv(t *testing.T, dsn, host, secret, query string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		u.Host = fmt.Sprintf("%s:%s", host, u.Port())
	}
	if secret != "" {
		u.User = url.UserPassword(u.User.Username(), secret)
	}
	u.RawQuery = query
	return "DATABASE_URL=" + u.String()
}
