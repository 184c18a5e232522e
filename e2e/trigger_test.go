package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"posthaste.dev/posthaste/e2e/check"
)

// Every change of a table reaches Kafka by its triggers, in order, and nothing else does.
func TestTriggersWriteEventsOfEveryChange(t *testing.T) {
	for name, database := range map[string]string{"PostgreSQL 13": pg13, "PostgreSQL 15": pg15, "PostgreSQL 18": pg18} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLegacy(t, database)
			relay := l.start(l.relay())
			t.Run("changes", l.testChanges)
			t.Run("order beside other triggers", l.testOtherTriggers)
			t.Run("printing", l.testPrinting)
			t.Run("rights", l.testRights)
			t.Run("no event, no change", l.testFailure)
			t.Run("truncate", l.testTruncate)
			t.Run("replication", l.testReplication)
			t.Run("undone", l.testUndo)
			l.hammer()
			l.drain(15 * time.Second)
			l.stop(relay)
			if err := l.judge(check.History{}).Err(); err != nil {
				t.Error(err)
			}
			l.checkTotals()
		})
	}
}

const insertOrders = `insert into legacy_order (id, customer_email, status, total, currency) values `

func (l *legacy) testChanges(t *testing.T) {
	l.expect(t, l.app, insertOrders+`(1, 'a@x', 'new', 1.10, 'EUR'), (2, 'b@x', 'new', 2, 'EUR'),
		(3, 'c@x', 'new', 3, 'EUR')`,
		"order.created 1", "order.created 2", "order.created 3")
	l.expect(t, l.app, `update legacy_order set status = 'paid' where id < 3`, "order.changed 1", "order.changed 2")
	l.expect(t, l.app, `update legacy_order set status = status, seen_at = now(), customer_email = 'd@x'`)
	l.expect(t, l.app, `update legacy_order set total = 5 where id = 77`)
	l.expect(t, l.app, `begin; update legacy_order set total = 9; savepoint s; delete from legacy_order; rollback`)
	l.expect(t, l.app, `begin; savepoint s; delete from legacy_order; rollback to s;
		update legacy_order set total = 9 where id = 1; commit`, "order.changed 1")
	l.expect(t, l.app, insertOrders+`(1, 'a@x', 'new', 7, 'EUR'), (4, 'a@x', 'new', 4, 'EUR')
		on conflict (id) do update set total = excluded.total`, "order.changed 1", "order.created 4")
	l.expect(t, l.app, insertOrders+`(1, 'a@x', 'new', 7, 'EUR') on conflict do nothing`)
	l.expect(t, l.app, `update legacy_order set id = 30 where id = 3`, "order.deleted 3", "order.created 30")
	l.expect(t, l.app, `delete from legacy_order where id in (4, 30)`, "order.deleted 4", "order.deleted 30")
	l.expect(t, l.app, `begin; delete from legacy_order where id = 2;
		`+insertOrders+`(2, 'b@x', 'new', 2, 'EUR'); commit`,
		"order.deleted 2", "order.created 2")

	columns := []string{"id", "customer_email", "status", "total", "currency"}
	lines := [][]any{{int64(5), "e@x", "new", "5.50", "EUR"}, {int64(6), "f@x", "new", "6", "EUR"}}
	if _, err := l.app.CopyFrom(l.ctx, pgx.Identifier{"legacy_order"}, columns, pgx.CopyFromRows(lines)); err != nil {
		t.Fatal(err)
	}
	l.wrote(t, "order.created 5", "order.created 6")
}

// Another trigger that changes the row again makes two events, the first change first.
func (l *legacy) testOtherTriggers(t *testing.T) {
	if _, err := l.owner.Exec(l.ctx, `
		create function audit() returns trigger language plpgsql as
			$$ begin update legacy_order set status = 'audited' where id = new.id; return null; end $$;
		create trigger audit after insert on legacy_order for each row execute function audit()`); err != nil {
		t.Fatal(err)
	}
	l.expect(t, l.app, insertOrders+`(8, 'h@x', 'new', 8, 'EUR')`, "order.created 8", "order.changed 8")
	if _, err := l.owner.Exec(l.ctx, `drop trigger audit on legacy_order`); err != nil {
		t.Fatal(err)
	}
}

// Whatever the session is set to: times are in UTC, amounts keep their digits, and no column is told that is not meant
// to be. All events so far have their id, of version 7, in column and payload.
func (l *legacy) testPrinting(t *testing.T) {
	l.expect(t, l.app, `begin; set local timezone = 'Asia/Kolkata'; set local datestyle = 'German';
		insert into legacy_order values (9, 'i@x', 'new', 1234567890.10, 'EUR', '2026-01-02 03:04:05+05:30'); commit`,
		"order.created 9")
	rows, err := l.db.Query(l.ctx, `select event_id::text, payload from outbox_event order by id`)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var payload map[string]any
	if _, err := pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
		occurredAt, _ := payload["occurred_at"].(string)
		at, err := time.Parse(time.RFC3339, occurredAt)
		if err != nil || !strings.HasSuffix(occurredAt, "+00:00") || payload["event_id"] != id {
			t.Errorf("event %s: payload has event_id %v, occurred_at %s", id, payload["event_id"], occurredAt)
		}
		checkUUID7(t, id, at)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	delete(payload, "event_id")
	delete(payload, "occurred_at")
	got, _ := json.Marshal(payload)
	want := `{"aggregate_id":"9","aggregate_type":"Order","currency":"EUR","event_type":"order.created.v1",` +
		`"order_id":"9","placed_at":"2026-01-01T21:34:05+00:00","status":"new","total":"1234567890.10"}`
	if string(got) != want {
		t.Errorf("payload %s, want %s", got, want)
	}
}

// The old program gets no rights on the outbox, and can't borrow the function's.
func (l *legacy) testRights(t *testing.T) {
	const forbidden = "42501"
	for _, sql := range []string{
		`select from outbox_event`,
		`insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			values (outbox_uuid7(), 'Order', '1', 'order.created.v1', '{}', 'order-service.order', '1')`,
		`create temporary table own (like legacy_order);
			create trigger t after insert on own for each row execute function outbox_legacy_order('any.topic')`,
	} {
		l.refuse(t, l.app, forbidden, sql)
	}
	l.wrote(t)
}

// Where the event can't be written, the change fails with it.
func (l *legacy) testFailure(t *testing.T) {
	l.exec(`revoke insert on outbox_event from ` + l.roles[0])
	for _, sql := range []string{
		`update legacy_order set status = 'lost' where id = 1`, `delete from legacy_order where id = 1`,
		insertOrders + `(50, 'a@x', 'lost', 1, 'EUR')`,
	} {
		l.refuse(t, l.app, "42501", sql)
	}
	l.exec(`grant insert on outbox_event to ` + l.roles[0])
	var lost, kept int
	err := l.db.QueryRow(l.ctx, `
		select count(*) filter (where status = 'lost'), count(*) filter (where id = 1)
		from legacy_order`).Scan(&lost, &kept)
	if err != nil || lost != 0 || kept != 1 {
		t.Errorf("%d orders were changed without an event, order 1 is there %d times (%v)", lost, kept, err)
	}
	l.wrote(t)
}

func (l *legacy) testTruncate(t *testing.T) {
	refusal := l.refuse(t, l.owner, "P0001", `truncate legacy_order`)
	if !strings.Contains(refusal.Hint, "Use delete") {
		t.Errorf("hint %q names no way out", refusal.Hint)
	}
}

// A change that replication brings has its event where it was made.
func (l *legacy) testReplication(t *testing.T) {
	l.expect(t, l.db, `begin; set local session_replication_role = replica; `+
		insertOrders+`(60, 'a@x', 'new', 1, 'EUR'); delete from legacy_order where id = 60; commit`)
}

func (l *legacy) testUndo(t *testing.T) {
	l.psql(l.owner, "trigger_undo.sql")
	l.expect(t, l.app, `update legacy_order set total = total + 1`)
	l.psql(l.owner, "trigger.sql")
	l.expect(t, l.app, `delete from legacy_order where id = 9`, "order.deleted 9")
}

// hammer changes a few orders from many sessions at a time, each total by one more, and rolls some of it back.
func (l *legacy) hammer() {
	l.t.Helper()
	l.expect(l.t, l.app, insertOrders+`(101, 'a@x', 'new', 0, 'EUR'), (102, 'a@x', 'new', 0, 'EUR')`,
		"order.created 101", "order.created 102")
	var sessions errgroup.Group
	for range 8 {
		sessions.Go(func() error {
			for range 15 {
				err := pgx.BeginFunc(l.ctx, l.app, func(tx pgx.Tx) error {
					order := 101 + rand.IntN(2)
					_, err := tx.Exec(l.ctx, `update legacy_order set total = total + 1 where id = $1`, order)
					if err == nil && rand.IntN(4) == 0 {
						err = pgx.ErrTxCommitRollback // rolls back
					}
					return err
				})
				if err != nil && !errors.Is(err, pgx.ErrTxCommitRollback) {
					return err
				}
			}
			return nil
		})
	}
	if err := sessions.Wait(); err != nil {
		l.t.Fatal(err)
	}
}

// checkTotals wants every total of the hammered orders once, in order, up to the one in the table.
func (l *legacy) checkTotals() {
	l.t.Helper()
	next := map[string]int{}
	for _, r := range l.readTopics() {
		key := string(r.Key)
		if key != "101" && key != "102" {
			continue
		}
		var payload struct{ Total string }
		if err := json.Unmarshal(r.Value, &payload); err != nil {
			l.t.Fatal(err)
		}
		if want := fmt.Sprintf("%d.00", next[key]); payload.Total != want {
			l.t.Errorf("order %s: total %s arrives, want %s", key, payload.Total, want)
		}
		next[key]++
	}
	for key, n := range next {
		var total int
		err := l.db.QueryRow(l.ctx, `select total::int from legacy_order where id::text = $1`, key).Scan(&total)
		if err != nil {
			l.t.Fatal(err)
		}
		if n != total+1 {
			l.t.Errorf("order %s: %d events arrived, its total is %d", key, n, total)
		}
	}
}
