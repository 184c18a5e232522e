package faults_test

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/relay"
)

// mistake is a protection taken out, to see that the proof finds it.
type mistake string

const (
	none            mistake = "none"
	failedToTheTail mistake = "failed events go to the tail of the queue"
	noFlush         mistake = "handed to the client counts as acknowledged"
	noHoldBack      mistake = "later events of a failed key are sent"
)

// publisher returns the real producer, or a publisher with the mistake, and how to end it.
func (m mistake) publisher(c *cluster) (publisher, func(), error) {
	if m == noFlush {
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			return nil, nil, err
		}
		return hasty{client}, client.Close, nil
	}
	p, err := kafka.NewProducer(kafka.Config{Brokers: c.ListenAddrs()})
	if err != nil {
		return nil, nil, err
	}
	if m == noHoldBack {
		return piecemeal{p}, p.Close, nil
	}
	return p, p.Close, nil
}

// hasty does not wait for answers.
type hasty struct{ client *kgo.Client }

func (h hasty) Publish(_ context.Context, events []*relay.Event) []error {
	for _, e := range events {
		h.client.Produce(context.Background(), &kgo.Record{Topic: e.Topic, Key: []byte(e.Key), Value: e.Payload,
			Headers: []kgo.RecordHeader{{Key: "event_id", Value: []byte(e.EventID.String())}}}, nil)
	}
	return make([]error, len(events))
}

// piecemeal sends each event by itself and does not look at those before.
type piecemeal struct{ producer *kafka.Producer }

func (p piecemeal) Publish(ctx context.Context, events []*relay.Event) []error {
	errs := make([]error, len(events))
	for i := range events {
		errs[i] = p.producer.Publish(ctx, events[i:i+1])[0]
	}
	return errs
}

