package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// load is what writers do: transactions of some events each, at a rate or as fast as they can.
//
// A load with a rate is open: transactions are due at fixed moments whether or not earlier ones are done.
type load struct {
	place
	per      int  // events of a transaction
	rate     int  // events a second; 0 for no limit
	business bool // each transaction has a row of the service's own, too
	eventful bool // and the events; without them it is what a service does that has no outbox

	direct *kgo.Client // sends each event after its commit; nil for a relay's work
}

const (
	insert = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select ` + eventSQL + `
from unnest($1::bigint[], $2::text[], $3::text[]) new_event (n, key, topic)
order by n`

	ordersTable = `create table orders (id bigint generated always as identity primary key, "order" text not null,
    total numeric not null, at timestamptz not null default now())`
	insertOrder = `insert into orders ("order", total) values ($1, 1.10)`
)

// write commits so many events and returns when each of them had committed, by number less the first one's. The number
// of events is a multiple of those of a transaction, and a transaction is of one key.
func (l *load) write(ctx context.Context, events int) (first int, commits []time.Time, err error) {
	first = l.ledger.take(events)
	commits = make([]time.Time, events)
	due := make([]chan int, writers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for w := range writers {
		due[w] = make(chan int, events/l.per)
		wg.Go(func() {
			if err := l.writer(ctx, due[w], func(n int, at time.Time) { commits[n-first] = at }); err != nil {
				cancel(err)
			}
		})
	}
	began := time.Now()
	for n := 0; n < events; n += l.per {
		if !pause(ctx, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(l.rate)))) {
			break
		}
		due[writerOf(l.ledger.key(first+n))] <- first + n
	}
	for w := range writers {
		close(due[w])
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return first, nil, fmt.Errorf("write events: %w", err)
	}
	return first, commits, nil
}

// writer commits transactions as they are due, by the number of their first event.
func (l *load) writer(ctx context.Context, due <-chan int, committed func(n int, at time.Time)) error {
	db, err := pgx.Connect(ctx, l.dsn)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	for first := range due {
		if err := l.commit(ctx, db, first); err != nil {
			return err
		}
		at := time.Now()
		for n := first; n < first+l.per; n++ {
			committed(n, at)
			l.send(ctx, n)
		}
	}
	return nil
}

func (l *load) commit(ctx context.Context, db *pgx.Conn, first int) error {
	numbers, keys, topics := make([]int, l.per), make([]string, l.per), make([]string, l.per)
	for i := range l.per {
		numbers[i], keys[i], topics[i] = first+i, l.ledger.key(first+i), l.ledger.topic(first+i)
	}
	var batch pgx.Batch // one transaction, in one round trip
	if l.business {
		batch.Queue(insertOrder, keys[0])
	}
	if l.eventful {
		batch.Queue(insert, numbers, keys, topics)
	}
	return db.SendBatch(ctx, &batch).Close()
}

// send sends an event that has committed, where that is not a relay's work. What is lost, verify misses.
func (l *load) send(ctx context.Context, n int) {
	if l.direct != nil {
		l.direct.Produce(context.WithoutCancel(ctx), l.record(n), nil)
	}
}

// record is an event as a relay would publish it.
func (l *load) record(n int) *kgo.Record {
	return &kgo.Record{
		Topic: l.ledger.topic(n), Key: []byte(l.ledger.key(n)), Value: []byte(l.ledger.value(n)),
		Headers: []kgo.RecordHeader{
			{Key: "event_id", Value: []byte(l.ledger.eventID(n))},
			{Key: "event_type", Value: []byte("order.confirmed.v1")},
		},
	}
}
