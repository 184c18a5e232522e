package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// steady is a relay that keeps up: how long after its commit is an event in a consumer's hands?
//
// The load is open: events are due at fixed moments whether or not earlier ones have arrived. Latency runs from the
// return of the writer's commit to the return of the consumer's poll.
type steady struct {
	rate   int
	length time.Duration
}

func (steady) Name() string        { return "steady" }
func (steady) Fits(s Subject) bool { return s.Ships() }

// writers are the connections that share the load. Each key belongs to one, so the order of its events is defined.
const writers = 8

// settleIn is the part of the load that comes first and isn't measured.
const settleIn = 2 * time.Second

const insert = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
values (gen_random_uuid(), 'Order', $1, 'order.confirmed.v1',
    jsonb_build_object('order_id', $1::text, 'n', $2::int, 'total_amount', 1.10, 'pad', repeat('x', 225)), $3, $1)
returning event_id::text`

func (s steady) Run(ctx context.Context, p place, subject Subject) ([]Figure, error) {
	r, err := start(subject, p)
	if err != nil {
		return nil, err
	}
	defer r.kill()
	watch, err := p.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	// The relay is at work when it has shipped something.
	if _, err := p.db.Exec(ctx, insert, "first", 0, p.topic); err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	if err := watch.wait(ctx, 1); err != nil {
		return nil, fmt.Errorf("%w; the subject logged last:\n%s", err, r.tail())
	}

	warm := int(settleIn.Seconds() * float64(s.rate))
	total := warm + int(s.length.Seconds()*float64(s.rate))
	commits, err := s.write(ctx, p, total)
	if err != nil {
		return nil, err
	}
	if err := watch.wait(ctx, 1+total); err != nil {
		return nil, fmt.Errorf("%w; the subject logged last:\n%s", err, r.tail())
	}
	cpu, err := r.stop()
	if err != nil {
		return nil, err
	}
	if err := p.verify(ctx); err != nil {
		return nil, err
	}
	var latencies []time.Duration
	for _, c := range commits[warm:] {
		latencies = append(latencies, watch.arrival(c.eventID).Sub(c.at))
	}
	slices.Sort(latencies)
	written := commits[total-1].at.Sub(commits[warm].at).Seconds()
	return []Figure{
		{"p50", "ms", milliseconds(percentile(latencies, 50))},
		{"p99", "ms", milliseconds(percentile(latencies, 99))},
		{"max", "ms", milliseconds(latencies[len(latencies)-1])},
		{"load", "events/s", float64(len(latencies)-1) / written},
		{"relay cpu", "us/event", float64(cpu.Microseconds()) / float64(total)},
	}, nil
}

// commit is an event and when its commit returned.
type commit struct {
	eventID string
	at      time.Time
}

// write commits so many events, each in a transaction of its own at its due time, and returns them in due order.
func (s steady) write(ctx context.Context, p place, total int) ([]commit, error) {
	commits := make([]commit, total)
	due := make([]chan int, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		due[w] = make(chan int, total)
		wg.Go(func() { errs[w] = p.writer(ctx, due[w], commits) })
	}
	began := time.Now()
	for n := range total {
		if !pause(ctx, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(s.rate)))) {
			break
		}
		due[writerOf(keyOf(n))] <- n
	}
	for w := range writers {
		close(due[w])
	}
	wg.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	return commits, nil
}

func (p place) writer(ctx context.Context, due <-chan int, commits []commit) error {
	db, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for n := range due {
		var id string
		if err := db.QueryRow(ctx, insert, keyOf(n), n, p.topic).Scan(&id); err != nil {
			return err
		}
		commits[n] = commit{id, time.Now()}
	}
	return nil
}

// keyOf gives eight events in a row the same key, of 1,000.
func keyOf(n int) string { return fmt.Sprintf("order-%d", n/8*7919%1000) }

func writerOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % writers)
}

func percentile(sorted []time.Duration, p int) time.Duration { return sorted[(len(sorted)-1)*p/100] }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
