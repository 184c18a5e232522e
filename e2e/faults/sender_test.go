package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"posthaste.dev/posthaste/kafka"
)

// senderCase is what an answer means to somebody who sends a single record: nil, or an error that says so. In either
// case the sender works again once the fault is healed, with the client it has or another one.
type senderCase struct {
	fault kfake.Fault
	want  string // empty where the send succeeds
}

var senderCases = map[string]senderCase{
	"not leader":       {answers(kmsg.Produce, kerr.NotLeaderForPartition, 3), ""},
	"too few replicas": {answers(kmsg.Produce, kerr.NotEnoughReplicas, 3), ""},
	"out of order":     {answers(kmsg.Produce, kerr.OutOfOrderSequenceNumber, 1), ""},
	"id loads":         {answers(kmsg.InitProducerID, kerr.CoordinatorLoadInProgress, 2), ""},

	"missing":          {answers(kmsg.Produce, kerr.UnknownTopicOrPartition, always), "does not exist; create it"},
	"forbidden":        {answers(kmsg.Produce, kerr.TopicAuthorizationFailed, always), "grant it WRITE"},
	"hidden":           {answers(kmsg.Metadata, kerr.TopicAuthorizationFailed, always), "grant it WRITE"},
	"record too large": {answers(kmsg.Produce, kerr.MessageTooLarge, always), "refuses the record"},
	"may not write":    {answers(kmsg.Produce, kerr.ClusterAuthorizationFailed, always), "grant it WRITE"},
	"id refused":       {answers(kmsg.InitProducerID, kerr.ClusterAuthorizationFailed, always), "grant it WRITE"},
	"id fails":         {answers(kmsg.InitProducerID, kerr.UnknownServerError, 1), "UNKNOWN_SERVER_ERROR"},
}

func TestSender(t *testing.T) { atOnce(t, senderCases) }

func (c senderCase) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cluster, err := newCluster(struckTopic, otherTopic)
	if err != nil {
		return err
	}
	defer cluster.Close()
	sender, err := kafka.NewSender(kafka.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		return err
	}
	defer sender.Close(ctx)
	fault := cluster.Fault(c.fault)
	err = sender.Send(ctx, struckTopic, "k", []byte("{}"), nil)
	if failed := err != nil; failed != (c.want != "") || failed && !strings.Contains(err.Error(), c.want) {
		return fmt.Errorf("got %v, want %q", err, c.want)
	}
	fault.Remove()
	for _, topic := range []string{struckTopic, otherTopic} {
		for {
			if err = sender.Send(ctx, topic, "k", []byte("{}"), nil); err == nil {
				break
			}
			if !pause(ctx) {
				return fmt.Errorf("topic %s never recovers: %w", topic, err)
			}
		}
	}
	return nil
}
