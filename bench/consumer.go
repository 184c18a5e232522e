package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// watch is a consumer that notes when it got each event, by number.
type watch struct {
	client *kgo.Client
	done   chan struct{}
	mu     sync.Mutex
	came   map[int]time.Time
	news   chan struct{} // closed and replaced when something comes
}

func (p place) watch(ctx context.Context) (*watch, error) {
	// From the ends, asked for now: "at the end" would be found out at a time of its own.
	from := map[string]map[int32]kgo.Offset{}
	err := onKafka(p.brokers, func(admin *kadm.Client) error {
		ends, err := admin.ListEndOffsets(ctx, p.topics...)
		ends.Each(func(o kadm.ListedOffset) {
			if from[o.Topic] == nil {
				from[o.Topic] = map[int32]kgo.Offset{}
			}
			from[o.Topic][o.Partition] = kgo.NewOffset().At(o.Offset)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start consumer: %w", err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.ConsumePartitions(from))
	if err != nil {
		return nil, fmt.Errorf("start consumer: %w", err)
	}
	w := &watch{client: client, done: make(chan struct{}), came: map[int]time.Time{}, news: make(chan struct{})}
	go w.run()
	return w, nil
}

func (w *watch) run() {
	defer close(w.done)
	for {
		fetches := w.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		now := time.Now()
		w.mu.Lock()
		fetches.EachRecord(func(rec *kgo.Record) {
			if n := numberOf(rec.Value); w.came[n].IsZero() {
				w.came[n] = now
			}
		})
		close(w.news)
		w.news = make(chan struct{})
		w.mu.Unlock()
	}
}

// wait waits until so many events have come. It gives up when the subject ends, or nothing comes for half a minute.
func (w *watch) wait(ctx context.Context, t team, events int) error {
	for {
		w.mu.Lock()
		n, news := len(w.came), w.news
		w.mu.Unlock()
		if n >= events {
			return nil
		}
		select {
		case <-news:
		case <-t.ended():
			return t.failure("wait for events", nil)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			return t.failure(fmt.Sprintf("wait for events: %d of %d came", n, events), nil)
		}
	}
}

func (w *watch) arrival(n int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[n]
}

func (w *watch) close() {
	w.client.Close()
	<-w.done
}
