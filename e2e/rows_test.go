package e2e_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/e2e/check"
)

// exec runs a statement.
func (b *bed) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatalf("%v\nin %s", err, sql)
	}
}

// ok fails the test on an error.
func (b *bed) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// drain waits until nothing is unpublished, or nothing has moved for so long; the verdict then shows what is left.
func (b *bed) drain(patience time.Duration) {
	b.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	moved, last := time.Now(), -1
	for ; time.Since(moved) < patience; <-again.C {
		open, err := check.Unpublished(b.ctx, b.db, table)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		if len(open) != last {
			moved, last = time.Now(), len(open)
		}
	}
}

// readTable returns what the table holds now.
func (b *bed) readTable() []check.Event {
	b.t.Helper()
	events, err := check.ReadTable(b.ctx, b.db, table)
	if err != nil {
		b.t.Fatal(err)
	}
	return events
}

// judge reads table and Kafka and gives the checker's verdict.
func (b *bed) judge(h check.History) check.Report {
	b.t.Helper()
	h.Table, h.Records = b.readTable(), b.readTopics()
	h.Deletes = b.deletes
	return check.Judge(h)
}

// readTopics returns what Kafka holds now.
func (b *bed) readTopics() []check.Record {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	records, err := check.ReadTopics(ctx, b.kafka.addrs, b.topics...)
	if err != nil {
		b.t.Fatal(err)
	}
	return records
}

// follow starts a consumer of all topics of the bed.
func (b *bed) follow() *check.Follower {
	b.t.Helper()
	f, err := check.Follow(b.kafka.addrs, b.topics...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(f.Close)
	return f
}

// write commits one event in a transaction of its own and returns its id.
func (b *bed) write(key string) int64 {
	b.t.Helper()
	id, err := b.insert(b.db, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// insert writes one event of the key into the bed's first topic.
func (b *bed) insert(db queryRower, key string) (id int64, err error) {
	err = db.QueryRow(b.ctx, `
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		values (gen_random_uuid(), 'Order', $1, 'order.confirmed.v1', '{"n": 1}', $2, $1)
		returning id`, key, b.topics[0]).Scan(&id)
	return id, err
}

// writeMany commits events in one transaction, their keys taken in turn from so many.
func (b *bed) writeMany(events, keys int) {
	b.t.Helper()
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', $1, 'key-' || n % $3::int
		from generate_series(1, $2::int) n`, b.topics[0], events, keys)
}
