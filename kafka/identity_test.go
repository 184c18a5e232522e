package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"posthaste.dev/posthaste/relay"
)

// What may be sent to one cluster alone does not reach another, though it knows the topic; and the producer can say
// which cluster it has met.
func TestNothingReachesAnotherCluster(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	own, err := g.producer.Ping(t.Context())
	if err != nil || own == "" {
		t.Fatalf("the cluster's id is %q, %v", own, err)
	}
	count := func() int64 {
		ends, err := g.admin.ListEndOffsets(t.Context(), g.topic)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(g.topic, 0)
		return end.Offset
	}
	before := count()

	g.producer.Bind("another")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	published := make(chan []error, 1)
	go func() {
		published <- g.producer.Publish(ctx, []*relay.Event{
			{ID: 1, EventID: uuid.New(), Topic: g.topic, Key: "k", Payload: []byte("{}")}})
	}()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(30 * time.Second); g.producer.cluster.met() == ""; <-again.C {
		if len(published) > 0 || time.Now().After(deadline) {
			t.Fatal("the producer has not met the other cluster")
		}
	}
	if met, err := g.producer.Ping(t.Context()); err != nil || met != own {
		t.Errorf("the producer says that it has met %q, %v; want %q", met, err, own)
	}
	cancel()
	if errs := <-published; errs[0] == nil {
		t.Error("the event was acknowledged")
	}
	if n := count(); n != before {
		t.Errorf("%d records more in the other cluster", n-before)
	}

	g.producer.Bind(own)
	if errs := g.publish(3); errs[0] != nil || errs[2] != nil {
		t.Errorf("sent to its own cluster: %v", errs)
	}
}
