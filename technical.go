package posthaste

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// DefaultTechnicalTimeout is how long a [Technical.Send] waits at most unless TechnicalConfig.Timeout says otherwise.
const DefaultTechnicalTimeout = 10 * time.Second

// HeaderTechnicalType is the record header that holds [TechnicalEvent.Type]. It is not the event_type of domain events,
// so that no consumer takes one kind for the other.
const HeaderTechnicalType = "technical_type"

// TechnicalEvent is about the running of the system and not about the business: a cache entry to drop, a heartbeat, the
// progress of a job. What the business would miss if it were lost is a domain event and belongs into the outbox.
type TechnicalEvent struct {
	// Topic is where it goes. It must exist, and no domain event of the Registry may have a claim to it.
	Topic string

	// Type says what it is, such as "cache.invalidated": the header technical_type.
	Type string

	// Key chooses the partition, the one that the Java client chooses. It must not be empty.
	Key string

	// Payload is the value: a Go value that encoding/json marshals to an object, or the object itself as
	// json.RawMessage or []byte, which is sent as it is.
	Payload any

	// Headers become headers of the record. The trace context of the call is added unless a traceparent is among them.
	Headers map[string]string
}

// Sender hands records to Kafka for a [Technical]. [posthaste.dev/posthaste/kafka.Sender] is the one for real clusters.
// It must be safe for concurrent use.
type Sender interface {
	// Send returns nil once all in-sync replicas have the record, and returns when the context ends. After an error the
	// record may be there all the same.
	Send(ctx context.Context, topic, key string, value []byte, headers map[string]string) error

	// Close waits for what is under way until the context ends, and closes the connections.
	Close(ctx context.Context) error
}

// TechnicalConfig says how a [Technical] sends. Types and Sender are required.
type TechnicalConfig struct {
	// Types are the domain events of the service, which are refused here. A service without any gives an empty
	// Registry.
	Types *Registry

	// Sender takes the records. The Technical closes it.
	Sender Sender

	// Timeout is the longest that a Send waits, where its context does not end earlier. Default:
	// DefaultTechnicalTimeout. A technical event is worth no more of a request's time.
	Timeout time.Duration
}

// Technical sends technical events straight to Kafka, past the outbox. Make one when the service starts, share it, and
// close it at the end. It is safe for concurrent use and starts no goroutines; those of its Sender end with Close.
//
// # What is guaranteed
//
// Nil means that all in-sync replicas have the event (acks=all), once: the producer is idempotent, and what it
// repeats the brokers recognise. Events of a key that are sent one after the other, each when the one before has
// returned nil, keep that order. Events that claim to be domain events are refused before Kafka sees anything.
//
// # What is not promised
//
// No transaction: an event sent before a commit tells of something that may never be; one sent after a commit is lost
// when the process dies in between. No second attempt: after an error the event may or may not arrive, now or later,
// and sending it again may make it arrive twice. No order among events sent at the same time, nor across keys. No
// event_id, so that consumers can't recognise a repetition by it.
type Technical struct {
	domain  domain
	sender  Sender
	timeout time.Duration
}

// NewTechnical makes a Technical; it talks to no server. All mistakes in the configuration come back at once.
func NewTechnical(cfg TechnicalConfig) (*Technical, error) {
	var mistakes []error
	if cfg.Types == nil {
		mistakes = append(mistakes,
			errors.New("field Types is missing: give the Registry of the service's domain events"))
	}
	if cfg.Sender == nil {
		mistakes = append(mistakes, errors.New("field Sender is missing: make it by kafka.NewSender"))
	}
	if cfg.Timeout < 0 {
		mistakes = append(mistakes, fmt.Errorf("field Timeout is %v: want more than 0, or 0 for the default of %v",
			cfg.Timeout, DefaultTechnicalTimeout))
	}
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("configure technical producer:%w", refusals[error](mistakes))
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTechnicalTimeout
	}
	return &Technical{domain: domainOf(cfg.Types), sender: cfg.Sender, timeout: cfg.Timeout}, nil
}

// Send sends one event and waits until Kafka has it, the context ends, or the timeout has passed.
//
// A [TechnicalError] means that the event was refused and nothing was sent. After any other error it is unknown whether
// the event arrives.
func (t *Technical) Send(ctx context.Context, event TechnicalEvent) error {
	value, reasons := t.check(event)
	if len(reasons) > 0 {
		return &TechnicalError{Topic: event.Topic, Type: event.Type, Reasons: reasons}
	}
	headers := map[string]string{HeaderTechnicalType: event.Type}
	maps.Copy(headers, traceHeaders(ctx, event.Headers))
	maps.Copy(headers, event.Headers)

	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if err := t.sender.Send(ctx, event.Topic, event.Key, value, headers); err != nil {
		return fmt.Errorf("send technical event %s to topic %s: %w", printable(event.Type), event.Topic, err)
	}
	return nil
}

// Close waits for what is under way until the context ends, and closes the Sender. A Send that is still waiting when
// the context ends fails; a later one does too.
func (t *Technical) Close(ctx context.Context) error {
	if err := t.sender.Close(ctx); err != nil {
		return fmt.Errorf("close technical producer: %w", err)
	}
	return nil
}

// technicalValue turns the payload into the record's value, and tells its members.
func technicalValue(payload any) (value []byte, members map[string]json.RawMessage, err error) {
	switch p := payload.(type) {
	case nil:
		return nil, nil, fmt.Errorf("%w: give an object, struct{}{} for one that says nothing", ErrEmpty)
	case json.RawMessage:
		value = p
	case []byte:
		value = p
	default:
		// An Encoder, since Marshal writes <, > and & in six bytes each.
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(payload); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrInvalidJSON, err)
		}
		value = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	if err := json.Unmarshal(value, &members); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalidJSON, err)
	}
	if members == nil { // the JSON value null
		return nil, nil, ErrInvalidJSON
	}
	return value, members, nil
}
