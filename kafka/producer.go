package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// Producer is a relay.Publisher over one client. Publish is for one goroutine at a time; the other methods may be
// called from any.
//
// Order rests on the barrier: a call of Publish hands records over while nothing is open and nothing can leave (see
// gate), flushes, and waits for every answer. The client keeps the order of what is handed over within a partition, and
// when a batch of a partition fails it fails what is buffered behind it.
type Producer struct {
	cfg   Config
	tls   *tls.Config
	hooks kgo.Hook // of tests

	mu      sync.Mutex
	current *kgo.Client
	gate    *gate // of the current client
	closed  bool
	topics  map[string]*topic // written by Publish alone
	renew   bool              // the client may be spent, or knows an old limit of a topic
}

var _ relay.Publisher = (*Producer)(nil)

// maxBuffered is far above a chunk: the client must never refuse a part of one.
const maxBuffered = 1 << 20

// NewProducer makes a producer; it does not connect.
func NewProducer(cfg Config) (*Producer, error) {
	if cfg.ClientID == "" {
		cfg.ClientID = "posthaste"
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	p := &Producer{cfg: cfg, tls: tlsConfig, topics: make(map[string]*topic)}
	p.current, p.gate, err = p.newClient()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newClient makes a client, with a gate of its own that its connections go through.
func (p *Producer) newClient() (*kgo.Client, *gate, error) {
	g := &gate{}
	opts, err := p.cfg.reachOptions()
	if err != nil {
		return nil, nil, err
	}
	opts = append(append(opts, produceOptions()...),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.ProducerBatchMaxBytesFn(p.batchBytes),
		kgo.Dialer(g.dialer(p.tls)),
		kgo.WithHooks(g),
	)
	if p.hooks != nil {
		opts = append(opts, kgo.WithHooks(p.hooks))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("make Kafka client: %w", err)
	}
	return client, g, nil
}

func (p *Producer) client() *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// Close gives up what is in flight and closes the connections.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	client := p.current
	p.mu.Unlock()
	client.Close()
}

// Ping asks any broker for an answer.
func (p *Producer) Ping(ctx context.Context) error {
	if err := p.client().Ping(ctx); err != nil {
		return explainConnect(err, p.cfg.Brokers)
	}
	return nil
}

// Answers never brings anything: Publish waits for every outcome.
func (p *Producer) Answers() <-chan []relay.Answer { return nil }

// Partition knows none.
func (p *Producer) Partition(string, string) int32 { return -1 }

// Publish sends the events and waits for the outcome of each. When the context ends it stops waiting; what has no
// answer by then may still be sent.
func (p *Producer) Publish(ctx context.Context, events []*relay.Event) []error {
	errs := make([]error, len(events))
	if err := p.prepare(ctx, events); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	// A key's later events wait behind a failed one.
	failed := make(map[relay.TopicKey]bool)
	records := make([]*kgo.Record, len(events))
	for i, e := range events {
		k := relay.TopicKey{Topic: e.Topic, Key: e.Key}
		if failed[k] {
			errs[i] = errBehind
			continue
		}
		if records[i], errs[i] = p.record(e); errs[i] != nil {
			failed[k] = true
		}
	}
	p.send(ctx, records, errs)
	p.isolate(ctx, events, records, errs, failed)
	for i, err := range errs {
		if _, classified := errors.AsType[*relay.Failure](err); err == nil || classified {
			continue
		}
		// What passes by itself the client waits for. What it gives up on may be final for it: after a refused producer
		// id it fails every record at once, and a topic that was deleted and made again stays unknown to it.
		p.renew = true
		p.forget(events[i].Topic)
		errs[i] = classify(err, events[i].Topic)
	}
	return errs
}

var (
	errBehind  = &relay.Failure{Class: relay.Unsent, Err: errors.New("an earlier event of the key has failed")}
	errEarly   = &relay.Failure{Class: relay.Unsent, Err: errors.New("another event failed before the chunk was sent")}
	errPending = &relay.Failure{Class: relay.Outage, Err: errors.New("no answer yet when the relay stopped waiting")}
)

// prepare renews the client where needed and learns the topics.
func (p *Producer) prepare(ctx context.Context, events []*relay.Event) error {
	if p.renew {
		if err := p.replaceClient(); err != nil {
			return err
		}
	}
	names := make(map[string]bool)
	for _, e := range events {
		names[e.Topic] = true
	}
	return p.learn(ctx, names)
}

// replaceClient makes a new client. Nothing is open in the old one.
func (p *Producer) replaceClient() error {
	client, gate, err := p.newClient()
	if err != nil {
		return err
	}
	p.mu.Lock()
	old := p.current
	p.current, p.gate = client, gate
	if p.closed {
		old = client
	}
	p.mu.Unlock()
	p.renew = false
	old.Close()
	return nil
}

func (p *Producer) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.topics, name)
}

// record maps an event and refuses what the topic can't take.
func (p *Producer) record(e *relay.Event) (*kgo.Record, error) {
	t := p.topics[e.Topic]
	if t.problem != nil {
		return nil, t.problem
	}
	r, err := newRecord(e)
	if err != nil {
		return nil, &relay.Failure{Class: relay.Refused, Err: err}
	}
	if n := leastSize(r); n > int(t.maxBytes) {
		return nil, &relay.Failure{Class: relay.Refused,
			Err: fmt.Errorf("event %s makes a record of at least %d bytes, topic %s takes %d; "+
				"raise its max.message.bytes or send a reference to the data", e.EventID, n, e.Topic, t.maxBytes)}
	}
	return r, nil
}
