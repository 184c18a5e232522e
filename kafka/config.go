package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The SASL mechanisms.
const (
	SASLNone        = "none"
	SASLPlain       = "plain"
	SASLScramSHA256 = "scram-sha-256"
	SASLScramSHA512 = "scram-sha-512"
)

// Config says how to reach a cluster. Durability is not among the settings.
type Config struct {
	Brokers  []string // host:port of one broker or more; the others are learnt
	ClientID string   // "posthaste" by default
	TLS      bool     // encrypt, and check the brokers' names against their certificates
	CAFile   string   // PEM file of the authorities to trust instead of the system's; needs TLS
	SASL     string   // SASLNone by default
	Username string
	Password string
	// Patience is how long a chunk waits without a new answer before the partitions that have given none are left to
	// answer later. 1 s by default: a broker that hands its partitions over takes less.
	Patience time.Duration
}

// Validate names every value that can't work, in one error that holds no password.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, text string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(text, args...))
		}
	}
	refuse(len(c.Brokers) == 0, "KAFKA_BROKERS: empty; give host:port of at least one broker")
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		refuse(err != nil || host == "" || port == "", "KAFKA_BROKERS: %q is not host:port", b)
	}
	refuse(c.Patience < 0, "patience %v: must not be negative", c.Patience)
	refuse(c.CAFile != "" && !c.TLS, "POSTHASTE_KAFKA_CA_FILE=%s: needs POSTHASTE_KAFKA_TLS=on", c.CAFile)
	_, err := c.mechanism()
	refuse(err != nil, "%w", err)
	_, err = c.tls()
	refuse(err != nil, "%w", err)
	return errors.Join(errs...)
}

func (c Config) mechanism() (sasl.Mechanism, error) {
	if c.SASL == "" || c.SASL == SASLNone {
		if c.Username != "" || c.Password != "" {
			return nil, errors.New("POSTHASTE_KAFKA_USERNAME, POSTHASTE_KAFKA_PASSWORD: given without " +
				"POSTHASTE_KAFKA_SASL; say plain, scram-sha-256 or scram-sha-512")
		}
		return nil, nil
	}
	if c.Username == "" || c.Password == "" {
		return nil, fmt.Errorf("POSTHASTE_KAFKA_SASL=%s: needs POSTHASTE_KAFKA_USERNAME and POSTHASTE_KAFKA_PASSWORD",
			c.SASL)
	}
	switch c.SASL {
	case SASLPlain:
		return plain.Auth{User: c.Username, Pass: c.Password}.AsMechanism(), nil
	case SASLScramSHA256:
		return scram.Auth{User: c.Username, Pass: c.Password}.AsSha256Mechanism(), nil
	case SASLScramSHA512:
		return scram.Auth{User: c.Username, Pass: c.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("POSTHASTE_KAFKA_SASL=%s: want none, plain, scram-sha-256 or scram-sha-512", c.SASL)
}

func (c Config) tls() (*tls.Config, error) {
	if !c.TLS {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("POSTHASTE_KAFKA_CA_FILE: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("POSTHASTE_KAFKA_CA_FILE=%s: holds no PEM certificate", c.CAFile)
		}
	}
	return t, nil
}

const (
	// requestTimeout is how long a broker may wait for its replicas before it answers.
	requestTimeout = 2 * time.Second
	// metadataPause is the least time between two looks at the cluster. At the client's default of 5 s a sequence error
	// takes as long to mend.
	metadataPause = 250 * time.Millisecond
	// metadataAge is the longest time between two. New partitions of a topic are seen at a look, by each relay and
	// client at its own; until all have seen them, a key whose lane or client changes may go to its old place once
	// more. The client's default is five minutes.
	metadataAge = 10 * time.Second
	// patience is the default of Config.Patience.
	patience = time.Second
)

// produceOptions are those of every client that produces. Up to five requests may be in flight at a broker, which can't
// be changed in an idempotent client. Behind a batch that fails for good a later one of its partition may be on its way
// already: the broker refuses it, since its sequence numbers leave a gap, and the client fails it with the first. A
// chunk is one request for each broker anyway, unless it is larger than a batch.
//
// What is not here is as important: no bound on retries or on the time of a record, since neither ends a record whose
// outcome is unknown, and no way to cancel one.
func produceOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProduceRequestTimeout(requestTimeout),
		kgo.MetadataMinAge(metadataPause),
		kgo.MetadataMaxAge(metadataAge),
	}
}
