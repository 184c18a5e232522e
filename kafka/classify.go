package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// classify decides what a failed produce means. It is the only place that does.
func classify(err error, topic string) *relay.Failure {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return &relay.Failure{Class: relay.TopicUnusable,
			Err: fmt.Errorf("topic %s does not exist; create it, or correct the topic of its events", topic)}
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return &relay.Failure{Class: relay.TopicUnusable,
			Err: fmt.Errorf("topic %s may not be written by this client; grant it WRITE and DESCRIBE", topic)}
	case errors.Is(err, kerr.InvalidTopicException):
		return &relay.Failure{Class: relay.TopicUnusable,
			Err: fmt.Errorf("topic %.260q is not a name that Kafka takes; correct the topic of its events", topic)}
	case suspicious(err):
		return &relay.Failure{Class: relay.Refused, Err: fmt.Errorf("topic %s refuses the record: %w", topic, err)}
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		err = fmt.Errorf("this client may not write; grant it WRITE on its topics, before Kafka 2.8 also "+
			"IDEMPOTENT_WRITE on the cluster: %w", err)
	}
	return &relay.Failure{Class: relay.Outage, Err: err}
}

// suspicious tells whether a record may be at fault. A batch fails as a whole, so the records must be tried alone.
func suspicious(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
		kerr.CorruptMessage, kerr.PolicyViolation, kerr.UnsupportedForMessageFormat} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ConnectError says why a cluster can't be reached. It holds no password.
type ConnectError struct {
	Brokers []string
	Cause   string
	Fix     string
	Waits   bool // time may mend it
	Source  error
}

// Sentence says what failed and why, without the way out.
func (e *ConnectError) Sentence() string {
	return fmt.Sprintf("connect to Kafka at %s: %s", strings.Join(e.Brokers, ","), e.Cause)
}

func (e *ConnectError) Error() string { return e.Sentence() + "; " + e.Fix }

// Unwrap returns the client's error.
func (e *ConnectError) Unwrap() error { return e.Source }

// explainConnect makes a sentence of a failed ping. What waiting can't mend is permanent.
func explainConnect(err error, brokers []string) error {
	var (
		first     *kgo.ErrFirstReadEOF
		record    tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		lookup    *net.DNSError
		network   *net.OpError
		e         = &ConnectError{Brokers: brokers, Source: err}
	)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		e.Cause, e.Fix = "user or password refused", "check POSTHASTE_KAFKA_USERNAME and POSTHASTE_KAFKA_PASSWORD"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		e.Cause, e.Fix = "the brokers do not offer this SASL mechanism", "check POSTHASTE_KAFKA_SASL"
	case errors.Is(err, kerr.IllegalSaslState):
		e.Cause, e.Fix = "the brokers do not take SASL on this port", "check the port, or set POSTHASTE_KAFKA_SASL=none"
	case errors.As(err, &record):
		e.Cause, e.Fix = "the brokers do not speak TLS on this port", "check the port, or set POSTHASTE_KAFKA_TLS=off"
	case errors.As(err, &authority):
		e.Cause = "nobody that is trusted has signed the brokers' certificate"
		e.Fix = "name the authority by POSTHASTE_KAFKA_CA_FILE"
	case errors.As(err, &name):
		e.Cause = "the brokers' certificate is refused: " + name.Error()
		e.Fix = "use a name that it holds (KAFKA_BROKERS, advertised.listeners), or have it made for this one"
	case errors.As(err, &invalid):
		e.Cause = "the brokers' certificate is refused: " + invalid.Error()
		e.Fix = "renew it, or set the clock of this machine"
	case errors.As(err, &first):
		e.Cause, e.Fix = explainHangUp(first)
	case strings.Contains(err.Error(), "appear to be a tls alert"):
		e.Cause, e.Fix = "the brokers speak TLS on this port", "set POSTHASTE_KAFKA_TLS=on, or check the port"
	case strings.Contains(err.Error(), "invalid large response size"):
		e.Cause, e.Fix = "what answers there does not speak Kafka", "check KAFKA_BROKERS"
	case errors.As(err, &lookup):
		e.Cause, e.Fix, e.Waits = "no host "+lookup.Name, "check KAFKA_BROKERS", true
	case errors.Is(err, context.DeadlineExceeded):
		e.Cause, e.Fix, e.Waits = "no answer in time", "check that the brokers run and can be reached", true
	case errors.As(err, &network) && network.Source != nil:
		// The whole text has the port on this side, which would make each try a news of its own in the log.
		e.Cause, e.Fix, e.Waits = network.Err.Error(), "check that the brokers run and can be reached", true
	default:
		e.Cause, e.Fix, e.Waits = err.Error(), "check that the brokers run and can be reached", true
	}
	if e.Waits {
		return e
	}
	return &relay.Permanent{Err: e}
}

// explainHangUp tells why brokers may close a new connection. The client library knows how far it had come, and says so
// by its text alone.
func explainHangUp(err *kgo.ErrFirstReadEOF) (cause, fix string) {
	switch text := err.Error(); {
	case strings.Contains(text, "after a dial"):
		return "the brokers close the connection when TLS begins", "check the port, or set POSTHASTE_KAFKA_TLS=off"
	case strings.Contains(text, "after a request"):
		return "the brokers close the connection at the first request, as they do when they want SASL",
			"set POSTHASTE_KAFKA_SASL, or check the port"
	}
	return "the brokers close the connection at once",
		"check the port; it may want TLS (POSTHASTE_KAFKA_TLS=on) or SASL (POSTHASTE_KAFKA_SASL)"
}
