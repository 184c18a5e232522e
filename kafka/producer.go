package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// Producer is a relay.Publisher. Publish is for one goroutine at a time; the other methods may be called from any.
//
// Order rests on the barrier: a call of Publish hands records over while nothing of their partitions is open and
// nothing can leave (see gate), flushes, and waits for every answer. The client keeps the order of what is handed over
// within a partition, and when a batch of a partition fails it fails what is buffered behind it.
//
// Where partitions do not answer while others do, the client is given up to them: see retire.
type Producer struct {
	cfg    Config
	tls    *tls.Config
	hooks  kgo.Hook        // of tests
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines, none of which outlives Close

	stale   atomic.Bool // topics may have changed, by an operator's word
	answers chan []relay.Answer
	counts  sync.Map // partitions of each topic, *atomic.Int32, as the clients see them
	cluster identity

	mu       sync.Mutex
	closed   bool
	current  *client
	spare    *client // nil while there is none, or more topics are loaded into it
	sparing  bool    // one is being made, or loaded
	spoilt   int     // goes up with what spoils the spare, and one that is being made
	retired  int
	open     map[string]*openTopic // with groups that wait for their outcomes
	doubtful []string              // topics in which a retired client has failed
	sick     map[place]seen        // partitions that can't be written, as far as is known while some are open
	watching bool

	topics  map[string]*topic // written by Publish alone
	unknown []string          // topics that the spare does not know; for Publish alone
	renew   bool              // the client may be spent, or knows an old limit of a topic
	raised  bool              // a limit that the client knows was raised
}

// client is a client of the cluster, with the gate that its connections go through.
type client struct {
	*kgo.Client
	gate *gate
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
	if cfg.Patience == 0 {
		cfg.Patience = patience
	}
	p := &Producer{cfg: cfg, tls: tlsConfig, answers: make(chan []relay.Answer), open: make(map[string]*openTopic),
		topics: make(map[string]*topic)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if p.current, err = p.newClient(); err != nil {
		p.cancel()
		return nil, err
	}
	return p, nil
}

// newClient makes a client. Not under the lock: the client asks for batchBytes at once.
func (p *Producer) newClient() (*client, error) {
	g := &gate{cluster: &p.cluster}
	opts, err := p.cfg.reachOptions()
	if err != nil {
		return nil, err
	}
	opts = append(append(opts, produceOptions()...),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.ProducerBatchMaxBytesFn(p.batchBytes),
		kgo.RecordPartitioner(p.partitioner()),
		kgo.Dialer(g.dialer(p.tls)),
		kgo.WithHooks(g),
	)
	if p.hooks != nil {
		opts = append(opts, kgo.WithHooks(p.hooks))
	}
	made, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	return &client{made, g}, nil
}

func (p *Producer) client() *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// Close gives up what is in flight and closes the connections. Answers brings nothing any more.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	current, spare := p.current, p.spare
	p.spare = nil
	p.mu.Unlock()
	p.cancel()
	current.Close()
	if spare != nil {
		spare.Close()
	}
	p.work.Wait()
}

// begin runs a goroutine that Close waits for, unless it has begun to.
func (p *Producer) begin(work func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Go(work)
	}
}

// Ping asks any broker for an answer, and returns the id of its cluster.
func (p *Producer) Ping(ctx context.Context) (string, error) {
	cluster, err := clusterID(ctx, p.client().Client)
	if err != nil {
		return "", explainConnect(err, p.cfg.Brokers)
	}
	if other := p.cluster.met(); other != "" {
		return other, nil
	}
	return cluster, nil
}

// Bind names the cluster that records may be sent to. Before, they are sent to any.
func (p *Producer) Bind(cluster string) { p.cluster.bind(cluster) }

// Publish sends the events and waits for the outcome of each, but for those of partitions that do not answer while
// others do (see relay.Publisher). When the context ends it stops waiting; what has no answer by then may still be
// sent.
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
	waits := p.openNow()
	if waits {
		p.holdSick(events, errs)
	}
	for i, e := range events {
		k := relay.TopicKey{Topic: e.Topic, Key: e.Key}
		switch {
		case errs[i] != nil: // held with all later ones of its key
			continue
		case failed[k]:
			errs[i] = errBehind
			continue
		case waits && p.isOpen(e):
			errs[i] = errOpen
		default:
			records[i], errs[i] = p.record(ctx, e)
		}
		if errs[i] != nil {
			failed[k] = true
		}
	}
	if p.raised {
		if err := p.replaceClient(); err != nil { // it knows the old limit
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	p.send(ctx, events, records, errs)
	p.isolate(ctx, events, records, errs, failed)
	if slices.Contains(errs, nil) {
		p.provideSpare()
	}
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
	p.renew = p.stale.Swap(false) || p.renew
	if p.renew {
		if err := p.replaceClient(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	for _, name := range p.doubtful {
		delete(p.topics, name)
	}
	p.doubtful = nil
	p.mu.Unlock()
	names := make(map[string]bool)
	for _, e := range events {
		names[e.Topic] = true
	}
	return p.learn(ctx, names)
}

// replaceClient makes a new client. Nothing is open in the old one. What spoils that has spoilt the spare, too.
func (p *Producer) replaceClient() error {
	fresh, err := p.newClient()
	if err != nil {
		return err
	}
	p.mu.Lock()
	old, spare := p.current, p.spare
	p.current, p.spare = fresh, nil
	p.spoilt++
	if p.closed {
		p.current, old = old, fresh
	}
	p.mu.Unlock()
	p.renew, p.raised = false, false
	old.Close()
	if spare != nil {
		spare.Close()
	}
	return nil
}

func (p *Producer) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.topics, name)
}

// record maps an event and refuses what the topic can't take.
func (p *Producer) record(ctx context.Context, e *relay.Event) (*kgo.Record, error) {
	t := p.topics[e.Topic]
	if t.problem != nil {
		return nil, t.problem
	}
	r, err := newRecord(e)
	if err != nil {
		return nil, &relay.Failure{Class: relay.Refused, Err: err}
	}
	n := leastSize(r)
	if n > int(t.maxBytes) && time.Since(t.askedAt) > limitAge {
		if t, err = p.limitNow(ctx, e.Topic); err != nil {
			return nil, err
		}
	}
	if n > int(t.maxBytes) {
		return nil, &relay.Failure{Class: relay.Refused,
			Err: fmt.Errorf("event %s makes a record of at least %d bytes, topic %s takes %d; "+
				"raise its max.message.bytes or send a reference to the data", e.EventID, n, e.Topic, t.maxBytes)}
	}
	return r, nil
}
