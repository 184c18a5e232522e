package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/relay"
	"posthaste.dev/posthaste/testbed/servers"
)

// threeBrokers are a real cluster of a test's own, which the test does harm to.
type threeBrokers struct {
	*servers.Kafka
	t      *testing.T
	client *kgo.Client
	topics []string
}

func startThree(t *testing.T) *threeBrokers {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	kafka, err := servers.StartKafka(t.Context(), servers.KafkaConfig{Brokers: 3})
	if err != nil {
		t.Fatalf("this test does harm to brokers, so it starts its own: %v", err)
	}
	t.Cleanup(func() {
		if err := kafka.Remove(); err != nil {
			t.Error(err)
		}
	})
	b := &threeBrokers{Kafka: kafka, t: t}
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(kafka.Addrs()...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	return b
}

// create makes a topic with these replicas of each partition, the first of which is the leader.
func (b *threeBrokers) create(topic string, replicas ...[]int32) {
	b.t.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, -1, -1
	for i, r := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), r
		wanted.ReplicaAssignment = append(wanted.ReplicaAssignment, a)
	}
	// One in-sync replica is enough where there is one, or it could never be written.
	setting := kmsg.NewCreateTopicsRequestTopicConfig()
	value := fmt.Sprint(min(2, len(replicas[0])))
	setting.Name, setting.Value = "min.insync.replicas", &value
	wanted.Configs = append(wanted.Configs, setting)
	request.Topics = append(request.Topics, wanted)
	response, err := request.RequestWith(b.t.Context(), b.client)
	if err != nil || response.Topics[0].ErrorCode != 0 {
		b.t.Fatalf("create topic %s: %v, %v", topic, err, response)
	}
	b.topics = append(b.topics, topic)
}

func (b *threeBrokers) names() []string { return b.topics }

// ends are not looked at: what an event that is acknowledged too early shows is proven with the fake.
func (b *threeBrokers) ends() map[check.Partition]int64 { return nil }

// steady is a flow that notes when events of each topic were last acknowledged.
type steady struct {
	*flow
	acks map[string]int
	last map[string]time.Time
	gap  map[string]time.Duration // the longest without one
}

func newSteady(b *threeBrokers, p *kafka.Producer) *steady {
	s := &steady{acks: map[string]int{}, last: map[string]time.Time{}, gap: map[string]time.Duration{}}
	s.flow = &flow{publisher: p, cluster: b, rng: rand.New(rand.NewPCG(1, 2)), mistake: none, holds: map[scope]int{},
		open: map[partition][]*relay.Event{}, reasons: map[partition]string{}, acked: map[int64]bool{}}
	return s
}

// turn writes and sends a chunk.
func (s *steady) turn(ctx context.Context, write bool) {
	if write {
		s.write(chunkMax)
	}
	s.send(ctx)
	now := time.Now()
	for _, topic := range s.cluster.names() {
		n := 0
		for _, e := range s.all {
			if e.Topic == topic && s.flow.acked[e.ID] {
				n++
			}
		}
		if n > s.acks[topic] {
			if last := s.last[topic]; !last.IsZero() {
				s.gap[topic] = max(s.gap[topic], now.Sub(last))
			}
			s.acks[topic], s.last[topic] = n, now
		}
	}
}

// With a broker gone, a partition that has lost its only replica and a topic below its least number of in-sync ones keep
// their own events; everything else flows on after a moment. When the broker is back all events are there, in order
// and once.
func TestRealBrokerGone(t *testing.T) {
	b := startThree(t)
	b.create("well", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2}, []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2})
	b.create("single", []int32{1}, []int32{2}, []int32{3})
	b.create("pair", []int32{1, 3}, []int32{2, 3})
	producer, err := kafka.NewProducer(kafka.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	s := newSteady(b, producer)
	for len(s.acked) < 300 || len(s.acks) < 3 {
		s.turn(t.Context(), true)
	}
	t.Logf("before: %v, longest gaps %v", s.acks, s.gap)
	clear(s.gap)
	if os.Getenv("HARM") == "stop" {
		err = b.Brokers[2].Pause()
	} else {
		err = b.Brokers[2].Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	settled := false
	for time.Since(killed) < 18*time.Second {
		if !settled && time.Since(killed) > 12*time.Second {
			settled = true
			t.Logf("after 15 s: %v, longest gaps %v, %d groups", s.acks, s.gap, s.retired)
			clear(s.gap)
		}
		s.turn(t.Context(), true)
	}
	t.Logf("without: %v, longest gaps %v, %d groups left open", s.acks, s.gap, s.retired)
	clear(s.gap)
	if os.Getenv("HARM") == "stop" {
		err = b.Brokers[2].Resume()
	} else {
		err = b.Brokers[2].Restart(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log("the broker is back")
	back := time.Now()
	for !s.done() && t.Context().Err() == nil && time.Since(back) < time.Minute {
		s.turn(t.Context(), false)
	}
	if !s.done() {
		for of := range s.open {
			t.Logf("%v is open: %s", of, s.reasons[of])
		}
		t.Fatalf("not done: %d queued, %d waiting, %d open", len(s.queue), len(s.waiting), len(s.open))
	}
	t.Logf("all there %v after; %d groups left open", time.Since(back), s.retired)
	var errs []error
	for _, p := range s.problems {
		errs = append(errs, errors.New(p))
	}
	records, err := check.ReadTopics(t.Context(), b.Addrs(), b.topics...)
	if err != nil {
		t.Fatal(err)
	}
	report := check.Judge(check.History{Table: s.table(), Records: records})
	t.Log(report)
	if err := errors.Join(append(errs, report.Err())...); err != nil {
		t.Error(err)
	}
}
