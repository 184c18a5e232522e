package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/relay"
)

// send hands over the records that are not nil and waits for their outcomes. What the events of an open partition are
// to come to after all is told by Answers.
//
// While not all of the records stand in the client's queues none is sent, and if one fails meanwhile (its topic is
// found gone, say), the chunk is taken back with its client: the records of its key that come into the queue later
// would pass it.
func (p *Producer) send(ctx context.Context, events []*relay.Event, records []*kgo.Record, errs []error) {
	client := p.client()
	f := newFlight(events, records, errs)
	whole := client.gate.close(f.left)
	for i, r := range records {
		if r == nil {
			continue
		}
		// Never the caller's context: a record whose context ends in flight has an unknown outcome.
		client.Produce(context.Background(), r, func(_ *kgo.Record, err error) { f.answer(i, err) })
	}
	select {
	case <-whole:
		awaitPromises(client.Client)
	case <-f.failed:
	case <-ctx.Done():
	}
	early := isClosed(f.failed) || !isClosed(whole)
	if early {
		client.gate.giveUp()
	} else {
		client.gate.open()
		if p.flush(ctx, client, f) != nil { // only with the context; what is open stays so in this client
			p.renew = true
		}
	}
	f.tell(errs, early)
	if early {
		p.renew = p.replaceClient() != nil // the old one fails what it has
	}
}

// flush sends what is in the queues and waits for the outcomes, or until the client is retired. The error is that of
// the context.
func (p *Producer) flush(ctx context.Context, client *client, f *flight) error {
	quiet := newQuiet(client.gate)
	for {
		flushed, err := flushOnce(ctx, client.Client)
		if flushed || err != nil {
			return err
		}
		if since := quiet.since(f.known()); since >= p.cfg.Patience && p.retire(ctx, f, since) {
			return nil
		}
	}
}

// flushAgain is how soon a flush that goes on is asked for again.
const flushAgain = 100 * time.Millisecond

// flushOnce sends what is in the queues and waits for the outcomes, but not long. The error is that of the context.
//
// The client wakes its senders when a flush begins, and has been seen to miss a queue that was new at that moment
// (kgo 1.22.3): its records then waited for the next look at the cluster, five minutes later. Asked again, it finds it.
func flushOnce(ctx context.Context, client *kgo.Client) (done bool, err error) {
	short, cancel := context.WithTimeout(ctx, flushAgain)
	defer cancel()
	if client.Flush(short) == nil {
		return true, nil
	}
	return false, ctx.Err()
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
		if r == nil || errs[i] == nil || unanswered(errs[i]) {
			continue // what is unanswered, all later ones of its key are, too
		}
		k := relay.TopicKey{Topic: events[i].Topic, Key: events[i].Key}
		switch {
		case failed[k]:
			errs[i] = errBehind
		case p.isOpen(events[i]): // since another was tried
			errs[i], failed[k] = errShut, true
		case suspicious(errs[i]), suspects[k] && errors.Is(errs[i], errEarly):
			p.forget(events[i].Topic)
			p.renew = true
			again, err := newRecord(events[i])
			if err == nil && p.client().gate.isSpent() {
				err = p.replaceClient()
			}
			if err == nil {
				one := []error{nil}
				p.send(ctx, events[i:i+1], []*kgo.Record{again}, one)
				err = one[0]
			}
			errs[i] = err
			failed[k] = err != nil
		default:
			failed[k] = true
		}
	}
}
