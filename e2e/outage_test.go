package e2e_test

import (
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// Handed to the client is not acknowledged: while the broker answers nothing, nothing is settled, and afterwards all
// events arrive, once.
func TestNothingIsSettledWhileKafkaIsSilent(t *testing.T) {
	for _, settle := range []string{"mark", "delete"} {
		t.Run(settle, func(t *testing.T) {
			b := newBed(t, pg15, oneBroker, "order.confirmed")
			if len(b.pids) == 0 {
				t.Skip("needs the process ids of the brokers")
			}
			b.migrate()
			b.deletes = settle == "delete"
			b.write("warm")
			ledger := b.readTable()
			relay := b.start(b.relay("POSTHASTE_RELAY_SETTLE=" + settle))
			arrivals := b.follow()
			b.expect(arrivals, 1, 15*time.Second)
			b.drain(5 * time.Second)

			const silence, events = 8 * time.Second, 200
			over := make(chan error, 1)
			go func() { over <- process.Stall(silence, b.pids...) }()
			b.await(time.Second, "the broker is stopped", func() bool { return process.Stopped(b.pids[0]) })
			b.exec(`
				insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
				select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', $1, 'key-' || n % 20
				from generate_series(1, $2::int) n`, b.topics[0], events)
			ledger = append(ledger, b.readTable()...) // in mode mark the first event twice, which is no harm
			for silent := true; silent; b.letPass(100 * time.Millisecond) {
				open, err := check.Unpublished(b.ctx, b.db, table)
				if err != nil {
					t.Fatal(err)
				}
				// What the broker acknowledges once it is back may be settled between the two looks.
				if silent = process.Stopped(b.pids[0]); silent && len(open) != events {
					t.Fatalf("%d events are unpublished while the broker is silent, want %d", len(open), events)
				}
			}
			if err := <-over; err != nil {
				t.Fatal(err)
			}
			b.expect(arrivals, 1+events, 15*time.Second)
			b.drain(5 * time.Second)
			b.stop(relay)
			report := b.judge(check.History{Ledger: ledger})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Duplicates > 0 {
				t.Errorf("%d duplicates, want none", report.Duplicates)
			}
		})
	}
}
