//go:build unix

package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/kafka"
)

// record is what the demo looks at of a record.
type record struct {
	topic     string
	partition int32
	offset    int64
	key       string
	value     string
	eventID   string // the header
}

type partition struct {
	topic string
	num   int32
}

// follower is a plain consumer that reads topics from the beginning. It may be used concurrently.
type follower struct {
	client *kgo.Client
	topics []string
	done   chan struct{}

	mu      sync.Mutex
	records []record
	next    map[partition]int64 // offset behind the last record
	arrived map[string]time.Time
	news    chan struct{} // closed and replaced at each arrival
}

func follow(cfg kafka.Config, topics []string) (*follower, error) {
	opts, err := cfg.ClientOptions()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts,
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	f := &follower{client: client, topics: topics, done: make(chan struct{}), news: make(chan struct{}),
		next: map[partition]int64{}, arrived: map[string]time.Time{}}
	go f.run()
	return f, nil
}

func (f *follower) run() {
	defer close(f.done)
	for {
		fetches := f.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		f.take(fetches, time.Now())
	}
}

func (f *follower) take(fetches kgo.Fetches, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		rec := record{topic: r.Topic, partition: r.Partition, offset: r.Offset}
		rec.key, rec.value = string(r.Key), string(r.Value)
		for _, h := range r.Headers {
			if h.Key == "event_id" {
				rec.eventID = string(h.Value)
			}
		}
		f.records = append(f.records, rec)
		f.next[partition{r.Topic, r.Partition}] = r.Offset + 1
		if _, again := f.arrived[rec.eventID]; !again {
			f.arrived[rec.eventID] = now
		}
	})
	close(f.news)
	f.news = make(chan struct{})
}

// waitFor returns when so many events have arrived.
func (f *follower) waitFor(ctx context.Context, events int) error {
	return f.wait(ctx, func() bool { return len(f.arrived) >= events })
}

// catchUp returns when everything has arrived that Kafka had at the time of the call.
func (f *follower) catchUp(ctx context.Context) error {
	ends, err := kadm.NewClient(f.client).ListEndOffsets(ctx, f.topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ask for the ends of the topics: %w", err)
	}
	return f.wait(ctx, func() bool {
		behind := false
		ends.Each(func(o kadm.ListedOffset) { behind = behind || f.next[partition{o.Topic, o.Partition}] < o.Offset })
		return !behind
	})
}

// wait looks at each arrival whether it is enough.
func (f *follower) wait(ctx context.Context, enough func() bool) error {
	for {
		f.mu.Lock()
		news, is := f.news, enough()
		f.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("wait for records: %w", context.Cause(ctx))
		}
	}
}

// has tells how many of the events have arrived.
func (f *follower) has(ids map[string]bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range ids {
		if _, ok := f.arrived[id]; ok {
			n++
		}
	}
	return n
}

// close ends it. What has arrived can be read without the lock afterwards.
func (f *follower) close() {
	f.client.Close()
	<-f.done
}
