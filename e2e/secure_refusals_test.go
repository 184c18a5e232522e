package e2e_test

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/e2e/process"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/relay"
)

// refusal is a relay that can't work, and what it must say of it.
type refusal struct {
	env        []string
	cause, fix string // regular expressions
	secrets    []string
}

// checkRefusals starts the relays a few at a time, since each takes a second or two, and looks at their ends.
func checkRefusals(t *testing.T, b *bed, refusals map[string]refusal) {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(refusals)), 4) {
		checkSome(t, b, names, refusals)
	}
}

func checkSome(t *testing.T, b *bed, names []string, refusals map[string]refusal) {
	relays := map[string]*process.Process{}
	for _, name := range names {
		relays[name] = b.start(b.relay(refusals[name].env...))
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, name := range names {
		r := refusals[name]
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithDeadline(t.Context(), deadline)
			defer cancel()
			status, err := relays[name].Wait(ctx)
			log := relays[name].LogTail(1000)
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			if status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			want := regexp.MustCompile(`(?m)^posthaste relay: connect to .*: ` + r.cause + `\n  .*` + r.fix)
			if !want.MatchString(log) || strings.Count(log, "posthaste relay: ") != 1 {
				t.Errorf("it says\n%s\nwant, once, %s", log, want)
			}
			for _, secret := range r.secrets {
				if strings.Contains(log, secret) {
					t.Error("the log holds a password")
				}
			}
		})
	}
}

// What Kafka refuses ends the relay within seconds, by name and with a way out.
func (s *secured) testKafkaRefusals(t *testing.T) {
	const (
		user        = "user or password refused"
		stranger    = "nobody that is trusted has signed the brokers' certificate"
		certificate = "the brokers' certificate is refused: "
		speaksTLS   = "the brokers speak TLS on this port"
		hangUpTLS   = "the brokers close the connection when TLS begins"
		hangUpSASL  = "the brokers close the connection at the first request, as they do when they want SASL"
	)
	type test struct {
		kafka      kafka.Config
		cause, fix string
	}
	tests := map[string]test{
		"expired certificate":   {s.login(expiredListener, kafka.SASLNone), certificate + ".* expired .*", "renew it"},
		"no SASL, with TLS":     {s.login(saslListener, kafka.SASLNone), hangUpSASL, "set POSTHASTE_KAFKA_SASL"},
		"no SASL":               {s.login(scramListener, kafka.SASLNone), hangUpSASL, "set POSTHASTE_KAFKA_SASL"},
		"mechanism not offered": {s.login(scramListener, kafka.SASLPlain), "the brokers do not offer .*", "KAFKA_SASL"},
		"SASL not spoken":       {s.login(tlsListener, kafka.SASLPlain), "the brokers do not take SASL .*", "=none"},
	}
	// The others are a way in with one thing wrong.
	add := func(name, listener, mechanism, cause, fix string, spoil func(*kafka.Config)) {
		c := s.login(listener, mechanism)
		spoil(&c)
		tests[name] = test{c, cause, fix}
	}
	badPassword := func(c *kafka.Config) { c.Password = "wrong" + random() }
	add("wrong password, PLAIN", saslListener, kafka.SASLPlain, user, "KAFKA_PASSWORD", badPassword)
	add("wrong password, SCRAM-256", scramListener, kafka.SASLScramSHA256, user, "KAFKA_PASSWORD", badPassword)
	add("wrong password, SCRAM-512", saslListener, kafka.SASLScramSHA512, user, "KAFKA_PASSWORD", badPassword)
	add("unknown user", scramListener, kafka.SASLScramSHA256, user, "KAFKA_USERNAME",
		func(c *kafka.Config) { c.Username = "nobody" })
	add("wrong authority", tlsListener, kafka.SASLNone, stranger, "POSTHASTE_KAFKA_CA_FILE",
		func(c *kafka.Config) { c.CAFile = s.stranger.file })
	add("authorities of the system", tlsListener, kafka.SASLNone, stranger, "POSTHASTE_KAFKA_CA_FILE",
		func(c *kafka.Config) { c.CAFile = "" })
	add("another host name", tlsListener, kafka.SASLNone, certificate+".*localhost", "use a name that it holds",
		func(c *kafka.Config) { c.Brokers[0] = strings.Replace(c.Brokers[0], "127.0.0.1", "localhost", 1) })
	plaintext := func(c *kafka.Config) { c.TLS, c.CAFile = false, "" }
	add("plaintext to TLS", tlsListener, kafka.SASLNone, speaksTLS, "set POSTHASTE_KAFKA_TLS=on", plaintext)
	add("plaintext to TLS, SASL", saslListener, kafka.SASLPlain, speaksTLS, "set POSTHASTE_KAFKA_TLS=on", plaintext)
	add("TLS to plaintext", tlsListener, kafka.SASLNone, hangUpTLS, "POSTHASTE_KAFKA_TLS=off",
		func(c *kafka.Config) { c.Brokers[0] = s.broker.Addr })
	add("TLS to plaintext, SASL", saslListener, kafka.SASLScramSHA256, hangUpTLS, "POSTHASTE_KAFKA_TLS=off",
		func(c *kafka.Config) { c.Brokers[0] = s.broker.Listener(scramListener) })

	refusals := map[string]refusal{}
	for name, test := range tests {
		r := refusal{env: kafkaEnv(test.kafka), cause: test.cause, fix: test.fix, secrets: []string{s.secret}}
		if test.kafka.Password != "" {
			r.secrets = append(r.secrets, test.kafka.Password)
		}
		refusals[name] = r
	}
	checkRefusals(t, s.bed(t), refusals)
	for name, test := range tests { // a service that has the relay inside learns the same
		if err := ping(t, test.kafka); !permanent(err) {
			t.Errorf("%s: Ping says %v, want a *relay.Permanent", name, err)
		}
	}
}

func ping(t *testing.T, c kafka.Config) error {
	t.Helper()
	p, err := kafka.NewProducer(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = p.Ping(ctx)
	return err
}

func permanent(err error) bool {
	_, is := errors.AsType[*relay.Permanent](err)
	return is
}

// What PostgreSQL refuses ends the relay as well.
func (s *secured) testPostgresRefusals(t *testing.T) {
	const stranger = "nobody that is trusted has signed the server's certificate"
	b := s.bed(t)
	trusted := "sslmode=verify-full&sslrootcert=" + s.authority.file
	badPassword := "wrong" + random()
	address := func(host, secret, query string) []string { return []string{databaseEnv(t, b.dsn, host, secret, query)} }
	refusals := map[string]refusal{
		"wrong password": {env: address("", badPassword, trusted), cause: "password authentication failed for user .*",
			fix: "check user and password", secrets: []string{badPassword}},
		"wrong authority": {env: address("", "", "sslmode=verify-ca&sslrootcert="+s.stranger.file), cause: stranger,
			fix: "name the authority by sslrootcert"},
		"authorities of the system": {env: address("", "", "sslmode=verify-full"), cause: stranger,
			fix: "name the authority by sslrootcert"},
		"another host name": {env: address("localhost", "", trusted),
			cause: "the server's certificate is refused: .*localhost", fix: "use a host name that it holds"},
	}
	if shared := testenv.Require(t, testenv.DatabaseURL); !speaksTLS(t, shared) {
		refusals["server without TLS"] = refusal{env: []string{databaseEnv(t, shared, "", "", "sslmode=require")},
			cause: "the server does not speak TLS", fix: "sslmode=disable"}
	}
	checkRefusals(t, b, refusals)

	plain := "sslmode=disable"
	b.reconfigure(plain, map[string]string{
		"hba_file": "hostnossl " + b.unique + " all all reject\nhost all all all scram-sha-256"})
	expired := s.authority.issue(t, time.Now().Add(-time.Hour))
	b.reconfigure(trusted, map[string]string{
		"ssl_cert_file": string(expired.Certificate), "ssl_key_file": string(expired.Key)})
	checkRefusals(t, b, map[string]refusal{
		"TLS demanded": {env: address("", "", plain), cause: "pg_hba.conf rejects connection .* no encryption",
			fix: "sslmode=require"},
		"expired certificate": {env: address("", "", trusted),
			cause: "the server's certificate is refused: .* expired .*", fix: "renew it"},
	})
}

func speaksTLS(t *testing.T, dsn string) bool {
	t.Helper()
	var on bool
	if err := connect(t, dsn).QueryRow(t.Context(), "select current_setting('ssl')::boolean").Scan(&on); err != nil {
		t.Fatal(err)
	}
	return on
}

// reconfigure makes PostgreSQL overwrite files that its settings name, and waits until it refuses connections with this
// query.
func (b *bed) reconfigure(query string, files map[string]string) {
	b.t.Helper()
	for setting, text := range files {
		var statement string
		err := b.db.QueryRow(b.ctx, `
			select format('copy (select regexp_split_to_table(%L, %L)) to %L', $1::text, e'\n',
				case when name like '/%' then name else current_setting('data_directory') || '/' || name end)
			from current_setting($2) name`, text, setting).Scan(&statement)
		if err != nil {
			b.t.Fatal(err)
		}
		b.exec(statement)
	}
	b.exec("select pg_reload_conf()")
	dsn, _ := strings.CutPrefix(databaseEnv(b.t, b.dsn, "", "", query), "DATABASE_URL=")
	b.await(10*time.Second, "PostgreSQL refuses "+query, func() bool {
		conn, err := pgx.Connect(b.ctx, dsn)
		if err == nil {
			_ = conn.Close(b.ctx)
		}
		return err != nil
	})
}
