package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/relay"
)

// onSecond is a hook of the client that runs once, when the second record of a chunk is about to be handed over.
type onSecond struct {
	seen int
	do   func()
}

func (h *onSecond) OnProduceRecordBuffered(r *kgo.Record) {
	if r.Topic == "" {
		return // not of the chunk
	}
	if h.seen++; h.seen == 2 {
		h.do()
	}
}

// rig is a producer on the real broker, and a topic of its own that it has sent one event to.
type rig struct {
	t        *testing.T
	admin    *kadm.Client
	topic    string
	producer *Producer
	ids      int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	addrs := strings.Split(testenv.Require(t, testenv.KafkaBrokers), ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	g := &rig{t: t, admin: kadm.NewClient(client), topic: "kafka-gate-" + strings.ToLower(rand.Text())}
	limit := "2000"
	if _, err := g.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit},
		g.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = g.admin.DeleteTopics(context.Background(), g.topic) })
	if g.producer, err = NewProducer(Config{Brokers: addrs}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.producer.Close)
	for g.publish(1)[0] != nil && t.Context().Err() == nil {
		// The broker learns of the topic a moment after the controller.
	}
	return g
}

// publish sends a chunk of n events of one key.
func (g *rig) publish(n int) []error {
	g.t.Helper()
	var events []*relay.Event
	for range n {
		g.ids++
		events = append(events,
			&relay.Event{ID: g.ids, EventID: uuid.New(), Topic: g.topic, Key: "k", Payload: []byte("{}")})
	}
	return g.producer.Publish(g.t.Context(), events)
}

// between lets something happen when the second event of the next chunk is about to be handed over.
func (g *rig) between(do func()) {
	g.t.Helper()
	g.producer.hooks = &onSecond{do: do}
	if err := g.producer.replaceClient(); err != nil {
		g.t.Fatal(err)
	}
	g.producer.hooks = nil
}

// arrived counts the records in the topic.
func (g *rig) arrived() int64 {
	g.t.Helper()
	ends, err := g.admin.ListEndOffsets(context.WithoutCancel(g.t.Context()), g.topic)
	if err != nil {
		g.t.Fatal(err)
	}
	end, _ := ends.Lookup(g.topic, 0)
	return end.Offset
}

// The client may want to send while records are handed over to it, as it does when a pause after a failed request ends.
func TestNothingLeavesBeforeTheChunkIsWhole(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	before := g.arrived()
	var flush sync.WaitGroup
	defer flush.Wait()
	g.between(func() {
		client := g.producer.client()
		flush.Go(func() { _ = client.Flush(t.Context()) })
		for client.gate.waits() == 0 && g.arrived() == before {
		}
		if n := g.arrived() - before; n > 0 {
			t.Errorf("%d records had left before the second was handed over", n)
		}
	})
	if errs := g.publish(2); errs[0] != nil || errs[1] != nil {
		t.Errorf("want both acknowledged, got %v", errs)
	}
	if n := g.arrived() - before; n != 2 {
		t.Errorf("%d of 2 records arrived", n)
	}
}

// An event that fails while later ones of its key are still to be handed over is not passed by them.
func TestFailureDuringHandOverTakesTheChunkBack(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	before := g.arrived()
	g.between(func() { g.producer.client().UnsafeAbortBufferedRecords() })
	errs := g.publish(2)
	for i, want := range []relay.Class{relay.Outage, relay.Unsent} {
		if failure, ok := errors.AsType[*relay.Failure](errs[i]); !ok || failure.Class != want {
			t.Errorf("event %d of 2: want %v, got %v", i+1, want, errs[i])
		}
	}
	if errs := g.publish(2); errs[0] != nil || errs[1] != nil {
		t.Errorf("the next chunk: %v", errs)
	}
	if n := g.arrived() - before; n != 2 {
		t.Errorf("%d records arrived, want the 2 of the second chunk", n)
	}
}

// The client refuses a record that is too large by a few bytes of its frame at once, and by itself: what comes after it
// in its partition must not pass it, and what came before must arrive.
func TestTooLargeByItsFrame(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	before := g.arrived()
	event := func(key, payload string) *relay.Event {
		return &relay.Event{EventID: uuid.New(), Topic: g.topic, Key: key, Payload: []byte(payload)}
	}
	large := event("k", "")
	r, err := newRecord(large)
	if err != nil {
		t.Fatal(err)
	}
	large.Payload = make([]byte, 2000-leastSize(r)) // the bound from below lets it pass
	if _, err := rand.Read(large.Payload); err != nil {
		t.Fatal(err)
	}
	errs := g.producer.Publish(t.Context(),
		[]*relay.Event{event("k", "{}"), large, event("k", "{}"), event("other", "{}")})
	if errs[0] != nil {
		t.Errorf("the event before it: %v", errs[0])
	}
	for i, want := range []relay.Class{relay.Refused, relay.Unsent, relay.Unsent} {
		if failure, ok := errors.AsType[*relay.Failure](errs[i+1]); !ok || failure.Class != want {
			t.Errorf("event %d of 4: want %v, got %v", i+2, want, errs[i+1])
		}
	}
	if n := g.arrived() - before; n != 1 {
		t.Errorf("%d records arrived, want 1", n)
	}
}
