package faults_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/check"
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

// The proof can fail: each protection taken out shows within a few runs.
func TestProofFindsMistakes(t *testing.T) {
	tests := map[mistake][]check.Kind{
		failedToTheTail: {check.Reordered},
		noFlush:         {check.Early, check.Missing},
		noHoldBack:      {check.Reordered},
	}
	for m, kinds := range tests {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			var broken int
			counts := map[check.Kind]int{}
			for _, run := range trials(t, m, seeds(t, 6)) {
				t.Log(run)
				broken += len(run.problems)
				for _, k := range kinds {
					counts[k] += run.report.Count(k)
				}
			}
			t.Logf("%v, %d promises broken", counts, broken)
			for _, k := range kinds {
				if counts[k] == 0 {
					t.Errorf("%s: 0, want it found", k)
				}
			}
			if m == noHoldBack && broken == 0 {
				t.Error("no event is acknowledged after a failure of its key, want some")
			}
		})
	}
}
