package check

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Arrival is a record and when a consumer had it in hands.
type Arrival struct {
	Record
	At time.Time
}

// Follower consumes topics from the start, as records come.
type Follower struct {
	client *kgo.Client
	done   chan struct{}

	mu       sync.Mutex
	arrivals []Arrival
	news     chan struct{} // closed and replaced at each arrival
}

// Follow starts to consume. The caller closes it.
func Follow(brokers []string, topics ...string) (*Follower, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("follow topics: %w", err)
	}
	f := &Follower{client: client, done: make(chan struct{}), news: make(chan struct{})}
	go f.run()
	return f, nil
}

func (f *Follower) run() {
	defer close(f.done)
	for {
		fetches := f.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		now := time.Now()
		f.mu.Lock()
		fetches.EachRecord(func(rec *kgo.Record) {
			f.arrivals = append(f.arrivals, Arrival{newRecord(rec), now})
		})
		close(f.news)
		f.news = make(chan struct{})
		f.mu.Unlock()
	}
}

// Wait returns all arrivals so far as soon as they are enough. It calls enough at each arrival. When the context ends
// first, it returns what there is, with an error.
func (f *Follower) Wait(ctx context.Context, enough func([]Arrival) bool) ([]Arrival, error) {
	for {
		f.mu.Lock()
		arrivals, news := f.arrivals, f.news
		f.mu.Unlock()
		arrivals = arrivals[:len(arrivals):len(arrivals)]
		if enough(arrivals) {
			return arrivals, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return arrivals, fmt.Errorf("wait for records: %d came: %w", len(arrivals), ctx.Err())
		}
	}
}

// Close ends the consumer.
func (f *Follower) Close() {
	f.client.Close()
	<-f.done
}
