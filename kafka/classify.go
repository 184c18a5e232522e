package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// classify decides what a failed produce means. It is the only place that does.
func classify(err error, topic string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return &relay.Failure{Class: relay.TopicUnusable,
			Err: fmt.Errorf("topic %s does not exist; create it, or correct the topic of its events", topic)}
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return &relay.Failure{Class: relay.TopicUnusable,
			Err: fmt.Errorf("topic %s may not be written by this client; grant it WRITE and DESCRIBE", topic)}
	case errors.Is(err, kerr.InvalidTopicException):
		return &relay.Failure{Class: relay.TopicUnusable, Err: fmt.Errorf("topic %q is not a name that Kafka takes", topic)}
	case suspicious(err):
		return &relay.Failure{Class: relay.Refused, Err: fmt.Errorf("topic %s refuses the record: %w", topic, err)}
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

// spent tells whether a client is of no more use: every record would fail at once, whatever the cluster does.
func spent(err error) bool {
	for _, e := range []error{kgo.ErrClientClosed, kerr.ClusterAuthorizationFailed, kerr.ProducerFenced,
		kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.UnsupportedVersion} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// explainPing makes a sentence of a failed ping. What waiting can't mend is permanent.
func explainPing(err error, brokers []string, tlsOn bool) error {
	permanent := func(text string) error {
		return &relay.Permanent{Err: fmt.Errorf("connect to Kafka at %v: %s: %w", brokers, text, err)}
	}
	var first *kgo.ErrFirstReadEOF
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return permanent("user or password refused; check POSTHASTE_KAFKA_USERNAME and POSTHASTE_KAFKA_PASSWORD")
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return permanent("the brokers do not offer this SASL mechanism; check POSTHASTE_KAFKA_SASL")
	case errors.As(err, &record):
		return permanent("the brokers do not speak TLS on this port; check KAFKA_BROKERS or set POSTHASTE_KAFKA_TLS=off")
	case errors.As(err, &authority):
		return permanent("the brokers' certificate is signed by nobody that is trusted; set POSTHASTE_KAFKA_CA_FILE")
	case errors.As(err, &name), errors.As(err, &invalid):
		return permanent("the brokers' certificate is not valid for them")
	case errors.As(err, &first) && tlsOn:
		return permanent("the connection is closed at once; is TLS spoken on this port, and SASL not required?")
	case errors.As(err, &first):
		return permanent("the connection is closed at once; the listener may want TLS (POSTHASTE_KAFKA_TLS=on) " +
			"or SASL (POSTHASTE_KAFKA_SASL)")
	}
	return fmt.Errorf("connect to Kafka at %v: %w", brokers, err)
}
