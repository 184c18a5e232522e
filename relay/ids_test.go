package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/posthastetest"
)

// Wherever ids come from and whatever becomes of them, every event is sent. In each of these a relay has looked far
// beyond the ids that then come, and has moved its floor there.

// byHand inserts events of the topic with ids of the inserter's choice.
const byHand = `
insert into outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
overriding system value
select id, gen_random_uuid(), 'Order', 'k', 'order.confirmed.v1', '{}', $1, 'k' from unnest($2::bigint[]) id`

// far starts a relay and lets it look far.
func (r *rig) far() {
	r.t.Helper()
	r.start()
	r.write("t", "k", 1000)
	r.untilDrained()
	tx := r.begin() // a look at the writers that finds none is over when this one was read
	r.must(tx.Rollback(r.t.Context()))
	r.untilWorking()
}

// A prepared transaction holds no later event up, lives through a restart of the relay, and its event is sent as soon
// as it is committed: malthe/pq#20.
func TestPreparedTransactionArrives(t *testing.T) {
	eachServer(t, func(t *testing.T, outbox *posthastetest.Outbox) {
		r := newRigIn(t, outbox, nil)
		r.far()
		conn, err := r.Pool.Acquire(t.Context())
		r.must(err)
		defer conn.Release()
		tx, err := conn.Begin(t.Context())
		r.must(err)
		_, err = tx.Exec(t.Context(), insert, "prepared", "p", 1)
		r.must(err)
		_, err = conn.Exec(t.Context(), `prepare transaction '`+r.Schema+`'`)
		r.must(err)
		done := false
		defer func() {
			if !done {
				r.exec(`rollback prepared '` + r.Schema + `'`)
			}
		}()
		r.write("t", "k", 1000)
		r.until("the later events flow", func() bool { return r.count("t") == 2001 })
		r.must(r.end())
		r.start()
		r.write("t", "k", 100)
		r.until("they flow after a restart", func() bool { return r.count("t") == 2101 })

		done = true
		r.exec(`commit prepared '` + r.Schema + `'`)
		r.until("the prepared one is sent", func() bool { return r.count("prepared") == 1 })
	})
}

// Events that a relay which has looked far must find all the same, by themselves and at once.
func TestIDsBelowThoseSeenAreFound(t *testing.T) {
	dumped := `create table dump as table outbox_event`
	for name, c := range map[string]struct {
		before []string // the relay starts
		after  []string // the relay has looked far
		events int      // that these write
	}{
		"setval backwards": {after: []string{
			`delete from outbox_event`, `select setval('outbox_event_id_seq', 300)`, insertSQL(100),
		}, events: 100},
		"setval backwards, nothing deleted but a gap": {after: []string{
			`delete from outbox_event where id between 500 and 600`, `select setval('outbox_event_id_seq', 499)`,
			insertSQL(100),
		}, events: 100},
		"truncate restart identity": {after: []string{
			`truncate outbox_event restart identity`, insertSQL(3),
		}, events: 3},
		// As pg_restore does it without --single-transaction, into a table of which yesterday's dump had 7 unpublished.
		"a restored dump": {after: []string{
			dumped, `update dump set published_at = null where id > 990 and id <= 997`, `truncate outbox_event`,
			`insert into outbox_event overriding system value select * from dump where id <= 997`,
			`select setval('outbox_event_id_seq', 997)`,
		}, events: 7},
		"a sequence that cycles": {before: []string{`alter sequence outbox_event_id_seq maxvalue 1100 cycle`},
			after: []string{`delete from outbox_event`, insertSQL(150)}, events: 150},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			for _, sql := range c.before {
				r.exec(sql)
			}
			r.far()
			sent := len(r.kafka.sent())
			for _, sql := range c.after {
				r.exec(sql)
			}
			r.until("all are sent", func() bool { return len(r.kafka.sent()) >= sent+c.events })
			r.untilDrained()
		})
	}
}

func insertSQL(n int) string {
	return strings.NewReplacer("$1", "'t'", "$2", "'k'", "$3", fmt.Sprint(n)).Replace(insert)
}

// A session that has drawn ids ahead of time writes them long after others have written higher ones. Nothing is final
// under such a sequence, whether it was so at the start or became so beside a running relay.
func TestSequenceThatCachesHidesNothing(t *testing.T) {
	for name, atStart := range map[string]bool{"from the start": true, "altered at run time": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.store.CheckInterval = 10 * time.Millisecond })
			log := r.loud()
			const alter = `alter sequence outbox_event_id_seq cache 50`
			if atStart {
				r.exec(alter)
			}
			r.far()
			if !atStart {
				r.exec(alter)
				r.untilTold(log, "the outbox table was changed")
			}
			r.untilTold(log, "has cache 50")
			early, err := pgx.Connect(t.Context(), r.URL)
			r.must(err)
			defer early.Close(t.Context())
			_, err = early.Exec(t.Context(), insert, "early", "e", 1)
			r.must(err)
			for i := range 3 {
				r.write("t", "k", 200)
				r.untilDrained()
				_, err = early.Exec(t.Context(), insert, "early", "e", 1)
				r.must(err)
				r.until("an id from the cache is found", func() bool { return r.count("early") == i+2 })
			}
		})
	}
}

// Ids by hand tell nobody that they come: they are found by the next sweep. A high one hides no later one of the
// sequence, and the sequence left behind is told of, with what to run. See vectorize-io/hindsight#3841.
func TestIDsByHand(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.store.CheckInterval = 10 * time.Millisecond
	})
	log := r.loud()
	r.far()
	r.exec(`delete from outbox_event where id = 500`)
	r.exec(byHand, "hand", []int64{-7, 0, 500, 1_000_000_000_000})
	r.until("all by hand are sent", func() bool { return r.count("hand") == 4 })
	r.untilTold(log, "behind the highest id 1000000000000")
	r.untilTold(log, "outbox_event_id_seq\\\"', 1000000000000)") // as the log quotes the setval to run
	before := r.count("t")
	r.write("t", "k", 100)
	r.until("the sequence's own are sent", func() bool { return r.count("t") == before+100 })
	if n := log.count("behind the highest id"); n != 1 {
		t.Errorf("the sequence left behind is told of %d times, want once", n)
	}
}

// The ways in which rows come into a table beside a plain insert, each by a transaction that commits long after others
// with higher ids: all of them keep the lock by which open writers are found.
func TestLateCommitsOfEveryWayToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		before []string
		write  func(r *rig, tx pgx.Tx) error
	}{
		"COPY": {write: func(r *rig, tx pgx.Tx) error {
			_, err := tx.CopyFrom(r.t.Context(), pgx.Identifier{"outbox_event"}, []string{"event_id", "aggregate_type",
				"aggregate_id", "event_type", "payload", "topic", "partition_key"},
				pgx.CopyFromRows([][]any{{[16]byte{1}, "Order", "late", "order.confirmed.v1", "{}", "late", "late"}}))
			return err
		}},
		"a trigger": {before: []string{
			`create table orders (id text)`,
			`create function wrote() returns trigger language plpgsql as $$ begin
				insert into outbox_event
					(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
				values (gen_random_uuid(), 'Order', new.id, 'order.confirmed.v1', '{}', 'late', new.id);
				return null; end $$`,
			`create trigger wrote after insert on orders for each row execute function wrote()`,
		}, write: inTransaction(`insert into orders values ('late')`)},
		"a savepoint and a cursor's loop": {write: inTransaction(`do $$ begin for i in 1..1 loop begin
			insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			values (gen_random_uuid(), 'Order', 'late', 'order.confirmed.v1', '{}', 'late', 'late');
			exception when others then raise; end; end loop; end $$`)},
		"straight into a partition": {before: partitioned, write: inTransaction(`
			insert into part_2 (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key,
				created_at)
			values (gen_random_uuid(), 'Order', 'late', 'order.confirmed.v1', '{}', 'late', 'late', '2100-01-01')`)},
		"a partition attached full": {before: append(partitioned[:len(partitioned):len(partitioned)],
			`create table part_3 (like outbox_event including all)`,
			`alter table part_3 add check (created_at >= '2200-01-01' and created_at < '2300-01-01')`),
			write: inTransaction(`
			insert into part_3 (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key,
				created_at)
			values (gen_random_uuid(), 'Order', 'late', 'order.confirmed.v1', '{}', 'late', 'late', '2200-01-01');
			alter table outbox_event attach partition part_3 for values from ('2200-01-01') to ('2300-01-01')`)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			for _, sql := range c.before {
				r.exec(sql)
			}
			r.far()
			tx := r.begin()
			r.must(c.write(r, tx))
			before := r.count("t")
			if name != "a partition attached full" { // which keeps all others out
				r.write("t", "k", 1000)
				r.until("later events flow", func() bool { return r.count("t") == before+1000 })
			}
			r.must(tx.Commit(t.Context()))
			r.until("the late one is sent", func() bool { return r.count("late") == 1 })
			r.untilDrained()
		})
	}
}

func inTransaction(sql string) func(*rig, pgx.Tx) error {
	return func(r *rig, tx pgx.Tx) error {
		_, err := tx.Exec(r.t.Context(), sql)
		return err
	}
}

// partitioned makes the outbox one of partitions by time, whose ids come from one sequence.
var partitioned = []string{
	`create table part_1 (like outbox_event including defaults including identity)`,
	`drop table outbox_event`,
	`create sequence outbox_event_id_seq`,
	`create table outbox_event (like part_1, primary key (id, created_at)) partition by range (created_at)`,
	`drop table part_1`,
	`alter table outbox_event alter id set default nextval('outbox_event_id_seq')`,
	`alter table outbox_event alter created_at set default now()`,
	`create index on outbox_event (id) where published_at is null`,
	`create table part_1 partition of outbox_event for values from ('2000-01-01') to ('2100-01-01')`,
	`create table part_2 partition of outbox_event for values from ('2100-01-01') to ('2200-01-01')`,
}
