package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// send hands over the records that are not nil and waits for their outcomes.
//
// While not all of them stand in the client's queues none is sent, and if one fails meanwhile (its topic is found gone,
// say), the chunk is taken back with its client: the records of its key that come into the queue later would pass it.
func (p *Producer) send(ctx context.Context, records []*kgo.Record, errs []error) {
	client, gate := p.client(), p.gate
	var (
		mu       sync.Mutex
		outcomes = make([]error, len(records))
		failed   = make(chan struct{}) // closed when one has
		fail     = sync.OnceFunc(func() { close(failed) })
		n        int
	)
	for i, r := range records {
		if r != nil {
			outcomes[i] = errPending
			n++
		}
	}
	whole := gate.close(n)
	for i, r := range records {
		if r == nil {
			continue
		}
		// Never the caller's context: a record whose context ends in flight has an unknown outcome.
		client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			outcomes[i] = err
			if err != nil {
				fail()
			}
		})
	}
	select {
	case <-whole:
		awaitPromises(client)
	case <-failed:
	case <-ctx.Done():
	}
	early := isClosed(failed) || !isClosed(whole)
	if early {
		gate.giveUp()
	} else {
		gate.open()
		if flush(ctx, client) != nil { // only with the context; what is open stays so in this client
			p.renew = true
		}
	}
	mu.Lock()
	for i, r := range records {
		switch {
		case r == nil:
		case early && outcomes[i] == errPending:
			errs[i] = errEarly
		default:
			errs[i] = outcomes[i]
		}
	}
	mu.Unlock()
	if early {
		p.renew = p.replaceClient() != nil // the old one fails what it has
	}
}

// flushAgain is how soon a flush that goes on is asked for again.
const flushAgain = 100 * time.Millisecond

// flush sends what is in the queues and waits for the outcomes. The error is that of the context.
//
// The client wakes its senders when a flush begins, and has been seen to miss a queue that was new at that moment
// (kgo 1.22.3): its records then waited for the next look at the cluster, five minutes later. Asked again, it finds it.
func flush(ctx context.Context, client *kgo.Client) error {
	for {
		short, cancel := context.WithTimeout(ctx, flushAgain)
		err := client.Flush(short)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitPromises returns when the promises of all records that have failed by now were called. The client calls promises
// one after the other, so it is enough to wait for that of a record which fails at once, having no topic.
func awaitPromises(client *kgo.Client) {
	called := make(chan struct{})
	client.Produce(context.Background(), &kgo.Record{}, func(*kgo.Record, error) { close(called) })
	<-called
}

// isolate finds the records that are at fault in batches that failed: it sends each again, alone and in order, and
// before it what was taken back of its key. What fails alone is refused; its key's later events wait. The topics'
// limits are asked for anew, since the likely reason is that one was lowered.
func (p *Producer) isolate(ctx context.Context, events []*relay.Event, records []*kgo.Record, errs []error,
	failed map[relay.TopicKey]bool) {
	suspects := make(map[relay.TopicKey]bool)
	for i, r := range records {
		if r != nil && suspicious(errs[i]) {
			suspects[relay.TopicKey{Topic: events[i].Topic, Key: events[i].Key}] = true
		}
	}
	for i, r := range records {
		if r == nil || errs[i] == nil {
			continue
		}
		k := relay.TopicKey{Topic: events[i].Topic, Key: events[i].Key}
		switch {
		case failed[k]:
			errs[i] = errBehind
		case suspicious(errs[i]), suspects[k] && errors.Is(errs[i], errEarly):
			p.forget(events[i].Topic)
			p.renew = true
			again, err := newRecord(events[i])
			if err == nil && p.gate.spent {
				err = p.replaceClient()
			}
			if err == nil {
				one := []error{nil}
				p.send(ctx, []*kgo.Record{again}, one)
				err = one[0]
			}
			errs[i] = err
			failed[k] = err != nil
		default:
			failed[k] = true
		}
	}
}
