package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/testenv"
)

// Close sends what is under way, also what nobody waits for any more. The client is told to linger, so that only a
// flush sends the records in time.
func TestSenderCloseFlushes(t *testing.T) {
	t.Parallel()
	brokers := strings.Split(testenv.Require(t, testenv.KafkaBrokers), ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin, name := kadm.NewClient(client), "kafka-test-"+strings.ToLower(rand.Text())
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = admin.DeleteTopics(context.Background(), name) }()

	s, err := NewSender(Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	s.client.Close()
	if s.client, err = kgo.NewClient(append(s.opts, kgo.ProducerLinger(time.Minute))...); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // the broker learns of the topic a moment after the controller
		if _, err := s.admit(bounded, s.client, &kgo.Record{Topic: name}); err == nil {
			break
		} else if bounded.Err() != nil {
			t.Fatal(err)
		}
	}
	ctx, abandon := context.WithCancel(bounded)
	const records = 20
	outcomes := make(chan error, records)
	for i := range records {
		go func() { outcomes <- s.Send(ctx, name, fmt.Sprint(i), []byte(`{}`), nil) }()
	}
	for s.client.BufferedProduceRecords() < records { // they linger
		if bounded.Err() != nil || len(outcomes) > 0 {
			t.Fatalf("a Send ended early: %v", <-outcomes)
		}
	}
	abandon()
	for range records {
		if err := <-outcomes; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may still arrive") {
			t.Errorf("an abandoned Send says %v", err)
		}
	}
	if err := s.Close(bounded); err != nil {
		t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup(name, 0); end.Offset != records {
		t.Errorf("%d of %d records arrived", end.Offset, records)
	}
}

// Whoever waits at a client that is replaced after another's failure is not told that the sender is closed.
func TestSenderReplacedIsNotClosed(t *testing.T) {
	t.Parallel()
	s, err := NewSender(Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	spent, err := s.current()
	if err != nil {
		t.Fatal(err)
	}
	s.renew(spent)
	if err := s.settle(spent, "t", nil, kgo.ErrClientClosed); err == nil || errors.Is(err, errClosed) {
		t.Errorf("at a replaced client: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.settle(spent, "t", nil, kgo.ErrClientClosed); !errors.Is(err, errClosed) {
		t.Errorf("at a closed sender: %v", err)
	}
}
