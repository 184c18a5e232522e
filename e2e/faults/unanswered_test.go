package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/relay"
)

// sickPatience is short, but a healthy partition answers within it on a machine with other things to do.
const sickPatience = time.Second

// sick is a producer on a cluster whose partitions fall silent. The struck topic has many, by turns on two brokers.
type sick struct {
	t        *testing.T
	ctx      context.Context
	cluster  *cluster
	producer *kafka.Producer
	all      []*relay.Event
}

const manyPartitions = 8

func newSick(t *testing.T) *sick {
	t.Helper()
	t.Parallel()
	cluster, err := newCluster(otherTopic)
	if err == nil {
		cluster.topics = append(cluster.topics, struckTopic)
		limit := map[string]string{"max.message.bytes": fmt.Sprint(batchBytes)}
		err = cluster.CreateTopic(struckTopic, manyPartitions, limit)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for i := range int32(manyPartitions) {
		if err := cluster.MoveTopicPartition(struckTopic, i, i%2); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	t.Cleanup(cancel)
	producer, err := kafka.NewProducer(kafka.Config{Brokers: cluster.ListenAddrs(), Patience: sickPatience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	s := &sick{t: t, ctx: ctx, cluster: cluster, producer: producer}
	if got := s.publish(s.event(struckTopic, "first"), s.event(otherTopic, "first")); got != "ok ok" {
		t.Fatal(got)
	}
	return s
}

func (s *sick) event(topic, key string) *relay.Event {
	e := newEvent(int64(len(s.all)+1), topic, key)
	s.all = append(s.all, e)
	return e
}

func (s *sick) publish(events ...*relay.Event) string {
	s.t.Helper()
	return outcomes(s.producer.Publish(s.ctx, events))
}

// key returns the n-th key of a partition of the struck topic.
func (s *sick) key(partition int32, n int) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key-", i)
		if s.producer.Partition(struckTopic, key) != partition {
			continue
		}
		if n--; n < 0 {
			return key
		}
	}
}

// silence makes partitions of the struck topic answer nothing but that they can't.
func (s *sick) silence(partitions ...int32) *kfake.FaultHandle {
	return s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: struckTopic, Partitions: partitions,
		Err: kerr.NotEnoughReplicas, Count: always})
}

// looks counts what clients ask of the cluster, each once in 250 ms at most: after some, all patience is over.
func (s *sick) looks() *kfake.FaultHandle {
	return s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: always})
}

// answers waits for those of a partition.
func (s *sick) answers() ([]*relay.Event, []error) {
	s.t.Helper()
	var events []*relay.Event
	var errs []error
	select {
	case answers := <-s.producer.Answers():
		for _, a := range answers {
			events, errs = append(events, a.Event), append(errs, a.Err)
		}
	case <-s.ctx.Done():
		s.t.Fatal("no answers come")
	}
	return events, errs
}

// judge wants all events in Kafka, in order and once.
func (s *sick) judge() {
	s.t.Helper()
	records, err := s.cluster.records(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	var table []check.Event
	for _, e := range s.all {
		table = append(table, row(e, true))
	}
	report := check.Judge(check.History{Table: table, Records: records})
	if err := report.Err(); err != nil {
		s.t.Error(err)
	}
	if report.Duplicates > 0 {
		s.t.Errorf("%d duplicates", report.Duplicates)
	}
}

// A partition that does not answer keeps its own events alone. What the others have flows on, by another client, and
// its events arrive once and in order when it answers.
func TestSickPartitionStopsItselfAlone(t *testing.T) {
	s := newSick(t)
	a, b, well := s.key(0, 0), s.key(0, 1), s.key(2, 0) // on the same broker
	ill := s.silence(0)
	open := []*relay.Event{s.event(struckTopic, a), s.event(struckTopic, b), s.event(struckTopic, a)}
	errs := s.producer.Publish(s.ctx, append(slices.Clone(open), s.event(struckTopic, well), s.event(otherTopic, a)))
	if got := outcomes(errs); got != "unanswered unanswered unanswered ok ok" {
		t.Fatalf("%s: %v", got, errors.Join(errs...))
	}
	if text := errs[0].Error(); !strings.Contains(text, "partition 0 of topic "+struckTopic) {
		t.Errorf("the reason does not name the partition: %s", text)
	}
	for range 20 {
		begun := time.Now()
		if got := s.publish(s.event(struckTopic, well), s.event(otherTopic, a)); got != "ok ok" {
			t.Fatal(got)
		}
		if took := time.Since(begun); took > 10*time.Second { // a chunk takes milliseconds, the machine may be busy
			t.Errorf("a chunk beside a sick partition took %v", took)
		}
	}
	if got := s.publish(newEvent(0, struckTopic, b)); got != "outage" {
		t.Errorf("an event of the open partition: %s, want that it is not sent", got)
	}
	ill.Remove()
	events, errs := s.answers()
	if got := outcomes(errs); got != "ok ok ok" || !slices.Equal(events, open) {
		t.Errorf("%s for %d events, want that all three were sent, in their order", got, len(events))
	}
	if got := s.publish(s.event(struckTopic, a), s.event(struckTopic, b)); got != "ok ok" {
		t.Errorf("once it has answered: %s", got)
	}
	s.judge()
}

// A chunk may have events of sick partitions alone, and nothing in it proves that others answer.
func TestChunkOfSickPartitionsAlone(t *testing.T) {
	s := newSick(t)
	ill := s.silence(0)
	if got := s.publish(s.event(struckTopic, s.key(0, 0))); got != "unanswered" {
		t.Fatal(got)
	}
	ill.Remove()
	if _, errs := s.answers(); outcomes(errs) != "ok" {
		t.Error(outcomes(errs))
	}
	s.judge()
}

// Where nothing answers there is nobody to make way for: it is an outage, and it is waited for.
func TestOutageIsWaitedFor(t *testing.T) {
	s := newSick(t)
	ill := s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: always})
	tries := s.looks()
	var chunk []*relay.Event
	for i := range int32(manyPartitions) {
		chunk = append(chunk, s.event(struckTopic, s.key(i, 0)), s.event(otherTopic, fmt.Sprint(i)))
	}
	answered := make(chan string, 1)
	go func() { answered <- outcomes(s.producer.Publish(s.ctx, chunk)) }()
	if err := tries.Wait(s.ctx, 20); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answered:
		t.Fatalf("not waited for: %s", got)
	default:
	}
	ill.Remove()
	if got := <-answered; strings.Contains(got, "u") {
		t.Errorf("after the outage: %s", got)
	}
	s.judge()
}

// Four clients may be open. With a fifth everything waits, and the fourth says so.
func TestFifthSickPartitionIsWaitedFor(t *testing.T) {
	s := newSick(t)
	var ill []*kfake.FaultHandle
	for i := range int32(4) {
		ill = append(ill, s.silence(i))
		errs := s.producer.Publish(s.ctx, []*relay.Event{s.event(struckTopic, s.key(i, 0)), s.event(otherTopic, "k")})
		if got := outcomes(errs); got != "unanswered ok" {
			t.Fatalf("partition %d: %s", i, got)
		}
		if last := strings.Contains(errs[0].Error(), "everything may"); last != (i == 3) {
			t.Errorf("partition %d: %v", i, errs[0])
		}
	}
	fifth := s.silence(4)
	tries := s.looks()
	answered := make(chan string, 1)
	chunk := []*relay.Event{s.event(struckTopic, s.key(4, 0)), s.event(otherTopic, "k")}
	go func() { answered <- outcomes(s.producer.Publish(s.ctx, chunk)) }()
	if err := tries.Wait(s.ctx, 40); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answered:
		t.Fatalf("not waited for: %s", got)
	default:
	}
	fifth.Remove()
	if got := <-answered; got != "ok ok" {
		t.Errorf("the fifth: %s", got)
	}
	for _, f := range ill {
		f.Remove()
	}
	for range ill {
		if _, errs := s.answers(); outcomes(errs) != "ok" {
			t.Error(outcomes(errs))
		}
	}
	s.judge()
}

// What fails after all has the class that Publish gives it; but nothing is tried alone by then.
func TestClassesOfAnswers(t *testing.T) {
	for err, want := range map[*kerr.Error]string{
		kerr.TopicAuthorizationFailed: "topic unsent topic",
		kerr.UnknownServerError:       "outage unsent outage",
		kerr.MessageTooLarge:          "unsent unsent unsent",
	} {
		t.Run(err.Message, func(t *testing.T) {
			s := newSick(t)
			a, b := s.key(0, 0), s.key(0, 1)
			ill := s.silence(0)
			chunk := []*relay.Event{s.event(struckTopic, a), s.event(struckTopic, a), s.event(struckTopic, b)}
			if got := s.publish(append(slices.Clone(chunk), s.event(otherTopic, a))...); got !=
				"unanswered unanswered unanswered ok" {
				t.Fatal(got)
			}
			ill.Remove()
			ill = s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: struckTopic,
				Partitions: []int32{0}, Err: err, Count: always})
			events, errs := s.answers()
			if got := outcomes(errs); got != want || !slices.Equal(events, chunk) {
				t.Errorf("%s: %v; want %s", got, errors.Join(errs...), want)
			}
			if err == kerr.MessageTooLarge {
				if got := s.publish(chunk...); got != "refused unsent refused" {
					t.Errorf("sent again: %s", got)
				}
			}
			ill.Remove()
			for left := chunk; len(left) > 0; {
				errs = s.producer.Publish(s.ctx, left)
				if left = remaining(left, errs); !pause(s.ctx) {
					t.Fatal(errors.Join(errs...))
				}
			}
			s.judge()
		})
	}
}

// What can't be sent anyway waits with the events of its key that were: it must not be set aside before they are known.
func TestRefusedEventWaitsForItsPartition(t *testing.T) {
	s := newSick(t)
	key := s.key(0, 0)
	ill := s.silence(0)
	sent, bad := s.event(struckTopic, key), newEvent(1000, struckTopic, key)
	bad.Headers = []byte(`["no object"]`)
	if got := s.publish(sent, bad, s.event(otherTopic, key)); got != "unanswered unanswered ok" {
		t.Fatal(got)
	}
	ill.Remove()
	if events, errs := s.answers(); outcomes(errs) != "ok refused" || !slices.Equal(events, []*relay.Event{sent, bad}) {
		t.Error(outcomes(errs))
	}
	s.judge()
}

// A topic that goes while a partition of it is open takes the events with it into the class of missing topics.
func TestOpenTopicIsDeleted(t *testing.T) {
	s := newSick(t)
	s.silence(0)
	if got := s.publish(s.event(struckTopic, s.key(0, 0)), s.event(otherTopic, "k")); got != "unanswered ok" {
		t.Fatal(got)
	}
	if err := s.cluster.DeleteTopic(struckTopic); err != nil {
		t.Fatal(err)
	}
	if _, errs := s.answers(); outcomes(errs) != "topic" {
		t.Errorf("%s: %v", outcomes(errs), errors.Join(errs...))
	}
	if got := s.publish(s.event(struckTopic, s.key(0, 0)), s.event(otherTopic, "k")); got != "topic ok" {
		t.Error(got)
	}
}

// Close does not wait for partitions that don't answer, and leaves nothing behind (see TestMain).
func TestCloseWithOpenPartitions(t *testing.T) {
	s := newSick(t)
	s.silence(0)
	if got := s.publish(s.event(struckTopic, s.key(0, 0)), s.event(otherTopic, "k")); got != "unanswered ok" {
		t.Fatal(got)
	}
	s.producer.Close()
	s.producer.Close()
	select {
	case answers := <-s.producer.Answers():
		t.Errorf("%d answers after Close", len(answers))
	default:
	}
}
