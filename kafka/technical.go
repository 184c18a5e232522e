package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// What waits for Kafka in a Sender at most. What would go beyond fails at once: technical events are not worth the
// memory of an outage.
const (
	maxWaiting      = 10_000
	maxWaitingBytes = 64 << 20
	// deliveryTimeout is how long a record may wait to be sent, as delivery.timeout.ms is by default. It does not end a
	// record whose outcome is unknown.
	deliveryTimeout = 2 * time.Minute
)

// Sender sends single records for a posthaste.Technical, idempotently and with acks=all. It has a client of its own, so
// that neither it nor a relay in the same process can hold the other up. It is safe for concurrent use.
type Sender struct {
	cfg  Config
	opts []kgo.Opt

	mu      sync.Mutex
	client  *kgo.Client
	renewed time.Time
	closed  bool
	topics  map[string]*topic
}

// NewSender makes a sender; it does not connect. Make one in a process, and share it.
func NewSender(cfg Config) (*Sender, error) {
	if cfg.ClientID == "" {
		cfg.ClientID = "posthaste"
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts, err := cfg.ClientOptions()
	if err != nil {
		return nil, err
	}
	s := &Sender{cfg: cfg, topics: make(map[string]*topic)}
	s.opts = append(append(opts, produceOptions()...),
		kgo.MaxBufferedRecords(maxWaiting),
		kgo.MaxBufferedBytes(maxWaitingBytes),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProducerLinger(0), // whoever sends waits, and what comes meanwhile makes a batch
		kgo.ProducerBatchMaxBytesFn(s.batchBytes),
	)
	if s.client, err = kgo.NewClient(s.opts...); err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	return s, nil
}

var errClosed = errors.New("the sender is closed")

// current returns the client, unless the sender is closed.
func (s *Sender) current() (*kgo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return s.client, nil
}

// Ping asks any broker for an answer. Worth a line when a service starts: a wrong password or certificate fails no
// Send, which waits for better times until its context ends.
func (s *Sender) Ping(ctx context.Context) error {
	client, err := s.current()
	if err != nil {
		return err
	}
	if err := client.Ping(ctx); err != nil {
		return explainConnect(err, s.cfg.Brokers)
	}
	return nil
}

// Send sends a record and returns nil once all in-sync replicas have it. When the context ends first, the record may
// still arrive: what was handed to the client is not taken back, since the client can't take one back without all
// that wait for the same partition.
func (s *Sender) Send(ctx context.Context, topic, key string, value []byte, headers map[string]string) error {
	client, err := s.current()
	if err != nil {
		return err
	}
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: value}
	for name, text := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(text)})
	}
	known, err := s.admit(ctx, client, r)
	if err != nil {
		return err
	}
	outcome := make(chan error, 1)
	client.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { outcome <- err })
	select {
	case err := <-outcome:
		return s.settle(client, topic, known, err)
	case <-ctx.Done():
		return fmt.Errorf("no acknowledgement yet, it may still arrive: %w", ctx.Err())
	}
}

// admit refuses what the topic can't take. It asks for a topic that it does not know before the client meets it: the
// client fixes the limit of a partition's batches then.
func (s *Sender) admit(ctx context.Context, client *kgo.Client, r *kgo.Record) (*topic, error) {
	if r.Topic == "" || len(r.Topic) > maxTopicName {
		return nil, classify(kerr.InvalidTopicException, r.Topic)
	}
	s.mu.Lock()
	t := s.topics[r.Topic]
	s.mu.Unlock()
	if t == nil {
		found, err := ask(ctx, client, []string{r.Topic})
		if err != nil {
			return nil, fmt.Errorf("nothing was sent, the brokers do not tell of the topic: %w", err)
		}
		if t = found[r.Topic]; t.problem != nil {
			return nil, t.problem
		}
		s.mu.Lock()
		if other := s.topics[r.Topic]; other != nil {
			t = other // somebody asked at the same time
		}
		s.topics[r.Topic] = t
		s.mu.Unlock()
	}
	if n := leastSize(r); n > int(t.maxBytes) {
		return nil, fmt.Errorf("nothing was sent: it makes a record of at least %d bytes, the topic takes %d; "+
			"send a reference to the data", n, t.maxBytes)
	}
	return t, nil
}

// settle turns an outcome into the caller's error, and throws away what the client would not get over by itself.
func (s *Sender) settle(client *kgo.Client, name string, known *topic, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return fmt.Errorf("nothing was sent: %d records or %d bytes wait for Kafka already", maxWaiting,
			maxWaitingBytes)
	case errors.Is(err, kgo.ErrClientClosed):
		if _, err := s.current(); err == nil { // another Send found the client spent and replaced it under this one
			return errors.New("no acknowledgement, it may have arrived: the connections were made anew after a failure")
		}
		return fmt.Errorf("no acknowledgement before the end: %w", errClosed)
	case errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Errorf("the brokers took nothing for %v: %w", deliveryTimeout, err)
	}
	failure := classify(err, name)
	if failure.Class != relay.Outage {
		s.forget(client, name, known)
	} else if _, answered := errors.AsType[*kerr.Error](err); answered {
		s.renew(client)
	}
	return failure
}

// forget lets a topic be learnt anew by the next Send: it may have been deleted and made again, or have a new limit.
// Only the first of those that failed by what was known does so, or they would throw away one another's records.
func (s *Sender) forget(client *kgo.Client, name string, known *topic) {
	s.mu.Lock()
	current := s.topics[name] == known
	if current {
		delete(s.topics, name)
	}
	s.mu.Unlock()
	if current {
		client.PurgeTopicsFromProducing(name)
	}
}

// renew replaces a client that may be spent: once refused a producer id, it fails every record for ever. Not more often
// than once in a second, however many fail. The new client is made without the lock: it asks for batchBytes at once.
func (s *Sender) renew(spent *kgo.Client) {
	s.mu.Lock()
	wanted := !s.closed && s.client == spent && time.Since(s.renewed) >= time.Second
	if wanted {
		s.renewed = time.Now()
	}
	s.mu.Unlock()
	if !wanted {
		return
	}
	fresh, err := kgo.NewClient(s.opts...)
	if err != nil {
		return // the same options have made a client before
	}
	s.mu.Lock()
	if s.closed {
		spent = fresh // Close has the old one
	} else {
		s.client = fresh
	}
	s.mu.Unlock()
	spent.Close()
}

// batchBytes bounds a batch by its topic's limit: small records must not fail for standing beside large ones.
func (s *Sender) batchBytes(name string) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return batchLimit(s.topics[name])
}

// Close sends what waits until the context ends, and closes the connections. It returns the context's error when
// something had no answer by then. A second call does nothing.
func (s *Sender) Close(ctx context.Context) error {
	s.mu.Lock()
	client, before := s.client, s.closed
	s.closed = true
	s.mu.Unlock()
	if before {
		return nil
	}
	defer client.Close()
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("%d records have no answer: %w", client.BufferedProduceRecords(), err)
	}
	return nil
}
