package faults_test

import (
	"context"
	"errors"
	"fmt"
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

const (
	struckTopic, otherTopic = "order.confirmed", "order.cancelled"

	always = -1 // until it is healed
)

// answers makes the next requests of a kind for the struck topic be answered with an error.
func answers(key kmsg.Key, err *kerr.Error, times int) kfake.Fault {
	f := kfake.Fault{Keys: []kmsg.Key{key}, Topic: struckTopic, Err: err, Count: times}
	if key == kmsg.InitProducerID {
		f.Topic = "" // it knows none
	}
	return f
}

// Here every outcome is waited for, however slow the machine is; what is left open has tests of its own.

// classCase is what an answer means. A call sends two events of a key and one of another to the struck topic, and one
// elsewhere; then the fault is healed, and calls with what is left deliver it.
type classCase struct {
	fault kfake.Fault
	want  string // of the four events while the fault stands
}

var classCases = map[string]classCase{
	// Ridden out within the call.
	"not leader":       {answers(kmsg.Produce, kerr.NotLeaderForPartition, 3), "ok ok ok ok"},
	"too few replicas": {answers(kmsg.Produce, kerr.NotEnoughReplicas, 3), "ok ok ok ok"},
	"time-out":         {answers(kmsg.Produce, kerr.RequestTimedOut, 3), "ok ok ok ok"},
	"out of order":     {answers(kmsg.Produce, kerr.OutOfOrderSequenceNumber, 1), "ok ok ok ok"},
	"old epoch":        {answers(kmsg.Produce, kerr.InvalidProducerEpoch, 2), "ok ok ok ok"},
	"unknown producer": {answers(kmsg.Produce, kerr.UnknownProducerID, 1), "ok ok ok ok"},
	"id loads":         {answers(kmsg.InitProducerID, kerr.CoordinatorLoadInProgress, 2), "ok ok ok ok"},
	"missing a moment": {answers(kmsg.Produce, kerr.UnknownTopicOrPartition, 2), "ok ok ok ok"},
	"batch refused":    {answers(kmsg.Produce, kerr.MessageTooLarge, 1), "ok ok ok ok"},

	// The topic's fault.
	"missing":           {answers(kmsg.Produce, kerr.UnknownTopicOrPartition, always), "topic unsent topic ok"},
	"missing, metadata": {answers(kmsg.Metadata, kerr.UnknownTopicOrPartition, always), "topic unsent topic ok"},
	"forbidden":         {answers(kmsg.Produce, kerr.TopicAuthorizationFailed, always), "topic unsent topic ok"},
	"hidden":            {answers(kmsg.Metadata, kerr.TopicAuthorizationFailed, always), "topic unsent topic ok"},

	// The record's fault: it has failed alone.
	"record refused":   {answers(kmsg.Produce, kerr.InvalidRecord, always), "refused unsent refused ok"},
	"record too large": {answers(kmsg.Produce, kerr.MessageTooLarge, always), "refused unsent refused ok"},

	// Nobody's fault: sent again in the same order. What the client takes for final ends the client, not the relay.
	"unknown error":  {answers(kmsg.Produce, kerr.UnknownServerError, always), "outage unsent outage ok"},
	"may not write":  {answers(kmsg.Produce, kerr.ClusterAuthorizationFailed, always), "outage unsent outage ok"},
	"fenced":         {answers(kmsg.Produce, kerr.ProducerFenced, always), "outage unsent outage ok"},
	"id refused":     {answers(kmsg.InitProducerID, kerr.ClusterAuthorizationFailed, 1), "outage unsent outage outage"},
	"id fails":       {answers(kmsg.InitProducerID, kerr.UnknownServerError, 1), "outage unsent outage outage"},
	"id unsupported": {answers(kmsg.InitProducerID, kerr.UnsupportedVersion, always), "outage unsent outage outage"},
}

func TestClasses(t *testing.T) { atOnce(t, classCases) }

func (c classCase) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cluster, err := newCluster(struckTopic, otherTopic)
	if err != nil {
		return err
	}
	defer cluster.Close()
	producer, err := kafka.NewProducer(kafka.Config{Brokers: cluster.ListenAddrs(), Patience: runTimeout})
	if err != nil {
		return err
	}
	defer producer.Close()
	events := []*relay.Event{newEvent(1, struckTopic, "a"), newEvent(2, struckTopic, "a"),
		newEvent(3, struckTopic, "b"), newEvent(4, otherTopic, "a")}

	fault := cluster.Fault(c.fault)
	errs := producer.Publish(ctx, events)
	if got := outcomes(errs); got != c.want {
		return fmt.Errorf("%s: %v; want %s", got, errors.Join(errs...), c.want)
	}
	fault.Remove()
	for left := remaining(events, errs); len(left) > 0; left = remaining(left, errs) {
		errs = producer.Publish(ctx, left)
		if !pause(ctx) {
			return fmt.Errorf("once it is healed: %w", errors.Join(errs...))
		}
	}
	records, err := cluster.records(ctx)
	if err != nil {
		return err
	}
	var table []check.Event
	for _, e := range events {
		table = append(table, row(e, true))
	}
	report := check.Judge(check.History{Table: table, Records: records})
	if err := report.Err(); err != nil {
		return err
	}
	if report.Duplicates > 0 {
		return fmt.Errorf("%d duplicates", report.Duplicates)
	}
	return nil
}

// A client that does not know a topic yet looks it up while it has the records already. None of a key may come to Kafka
// after the first of them has failed, however long that takes.
func TestFirstFailureOfANewClientHoldsTheKey(t *testing.T) {
	t.Parallel()
	cluster, err := newCluster(struckTopic)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	producer, err := kafka.NewProducer(kafka.Config{Brokers: cluster.ListenAddrs(), Patience: runTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var events []*relay.Event
	for id := range int64(50_000) { // they come into the client's queue while the first of them are sent
		events = append(events, newEvent(id+1, struckTopic, "a"))
	}
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		time.Sleep(100 * time.Millisecond) // the fault: an answer so slow that the client has all of them by then
		return nil, nil, false
	})
	cluster.Fault(answers(kmsg.Produce, kerr.UnknownServerError, 1))
	for i, err := range producer.Publish(t.Context(), events) {
		if err == nil {
			t.Fatalf("event %d is acknowledged, the first of its key has failed", events[i].ID)
		}
	}
	records, err := cluster.records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 {
		t.Errorf("%d events came to Kafka, the first of their key has failed", len(records))
	}
}

// pause waits before another try, since the client believes for a moment what it has learnt of a topic. It tells
// whether there is time left.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(50 * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// remaining returns the events that failed.
func remaining(events []*relay.Event, errs []error) []*relay.Event {
	var left []*relay.Event
	for i, err := range errs {
		if err != nil {
			left = append(left, events[i])
		}
	}
	return left
}

func outcomes(errs []error) string {
	var all []string
	for _, err := range errs {
		switch failure, ok := errors.AsType[*relay.Failure](err); {
		case err == nil:
			all = append(all, "ok")
		case ok:
			all = append(all, failure.Class.String())
		default:
			all = append(all, "bare")
		}
	}
	return strings.Join(all, " ")
}

// A topic that is deleted and made again is another topic to the brokers, by its id. Events wait while it is missing,
// and then arrive without a restart.
func TestTopicMadeAnew(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cluster, err := newCluster(struckTopic, otherTopic)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	producer, err := kafka.NewProducer(kafka.Config{Brokers: cluster.ListenAddrs(), Patience: runTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	send := func(id int64) string {
		events := []*relay.Event{newEvent(id, struckTopic, "a"), newEvent(id+1, otherTopic, "a")}
		return outcomes(producer.Publish(ctx, events))
	}
	if got := send(1); got != "ok ok" {
		t.Fatal(got)
	}
	if err := cluster.DeleteTopic(struckTopic); err != nil {
		t.Fatal(err)
	}
	if got := send(3); got != "topic ok" {
		t.Errorf("without the topic: %s, want topic ok", got)
	}
	if err := cluster.create(struckTopic); err != nil {
		t.Fatal(err)
	}
	for id := int64(5); ; id += 2 {
		got := send(id)
		if got == "ok ok" {
			break
		}
		if !pause(ctx) {
			t.Fatalf("the topic made anew is never taken: %s", got)
		}
	}
}
