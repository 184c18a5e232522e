package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
	firstAnswer     mistake = "the first answer counts for the whole chunk"
	noHoldBack      mistake = "later events of a failed key are sent"
)

// publisher returns the real producer, or one with the mistake, and how to end it.
func (m mistake) publisher(c *cluster, patience time.Duration) (publisher, func(), error) {
	if m == firstAnswer {
		h := &hasty{brokers: c.ListenAddrs()}
		return h, h.end, h.begin()
	}
	p, err := kafka.NewProducer(kafka.Config{Brokers: c.ListenAddrs(), Patience: patience})
	if err != nil {
		return nil, nil, err
	}
	if m == noHoldBack {
		return forward{p}, p.Close, nil
	}
	return p, p.Close, nil
}

// hasty hands a chunk over and waits for the first answer only.
type hasty struct {
	brokers []string
	client  *kgo.Client
}

func (h *hasty) begin() (err error) {
	h.client, err = kgo.NewClient(kgo.SeedBrokers(h.brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	return err
}

func (h *hasty) end() {
	_ = h.client.Flush(context.Background()) // without an end it fails never
	h.client.Close()
}

func (h *hasty) Publish(_ context.Context, events []*relay.Event) []error {
	answers := make(chan error, len(events))
	for _, e := range events {
		h.client.Produce(context.Background(), &kgo.Record{Topic: e.Topic, Key: []byte(e.Key), Value: e.Payload,
			Headers: []kgo.RecordHeader{{Key: "event_id", Value: []byte(e.EventID.String())}}},
			func(_ *kgo.Record, err error) { answers <- err })
	}
	errs := make([]error, len(events))
	if len(events) == 0 {
		return errs
	}
	if err := <-answers; err != nil {
		h.end() // it may be of no more use
		err = errors.Join(err, h.begin())
		for i := range errs {
			errs[i] = &relay.Failure{Class: relay.Outage, Err: err}
		}
	}
	return errs
}

// forward sends what waits behind a failed event of its key all the same.
type forward struct{ *kafka.Producer }

func (f forward) Publish(ctx context.Context, events []*relay.Event) []error {
	errs := f.Producer.Publish(ctx, events)
	failed := map[relay.TopicKey]bool{}
	for i, e := range events {
		k := relay.TopicKey{Topic: e.Topic, Key: e.Key}
		if errs[i] != nil && failed[k] {
			errs[i] = f.Producer.Publish(ctx, events[i:i+1])[0]
		}
		failed[k] = failed[k] || errs[i] != nil
	}
	return errs
}

// The proof can fail: each protection taken out shows within a few runs.
func TestProofFindsMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time")
	}
	t.Parallel()
	tests := map[mistake][]check.Kind{
		failedToTheTail: {check.Reordered},
		firstAnswer:     {check.Early, check.Missing},
		noHoldBack:      {check.Reordered},
	}
	var planned []trial
	for m := range tests {
		for _, seed := range seeds(t, 8) {
			planned = append(planned, trial{seed: seed, mistake: m, stormy: 8})
		}
	}
	found, broken := map[mistake]map[check.Kind]int{}, map[mistake]int{}
	for _, r := range runAll(t, planned) {
		t.Logf("%s: %s", r.mistake, r)
		if found[r.mistake] == nil {
			found[r.mistake] = map[check.Kind]int{}
		}
		for _, k := range check.Kinds() {
			found[r.mistake][k] += r.report.Count(k)
		}
		broken[r.mistake] += len(r.problems)
	}
	for m, kinds := range tests {
		for _, k := range kinds {
			if found[m][k] == 0 {
				t.Errorf("%s: no event is found to be %s, want some", m, k)
			}
		}
	}
	if broken[noHoldBack] == 0 {
		t.Errorf("%s: no event is acknowledged after a failure of its key, want some", noHoldBack)
	}
}
