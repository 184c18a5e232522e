package relay_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// work is what reads cost: entries of the partial index that are walked over, and blocks of the table and its indexes
// that are touched, cached or not.
type work struct{ entries, blocks float64 }

// workSQL tells of sessions that have ended.
const workSQL = `
select (select idx_tup_read from pg_stat_user_indexes where indexrelid = 'ix_outbox_event_unpublished'::regclass),
       (select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read from pg_statio_user_tables
        where relid = 'outbox_event'::regclass)`

// A transaction that stays open keeps every dead entry of the partial index, and whoever polls from the beginning walks
// over all of them for each batch. The floor makes a drain walk over each entry once, and an idle read over none. (With
// POSTHASTE_XMIN_ROWS=1000000 it takes minutes, and makes figures of docs/benchmarks.md.)
func TestHeldXmin(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cfg.BatchMax, r.cfg.Interval = 100, 5*time.Millisecond
		r.store.Conn.RuntimeParams["application_name"] = r.Schema + "_relay"
	})
	rows := 6000
	if given := os.Getenv("POSTHASTE_XMIN_ROWS"); given != "" {
		var err error
		rows, err = strconv.Atoi(given)
		r.must(err)
		r.cfg.BatchMax = 2000
	}
	free := r.drain(rows)
	_, idle := r.idle()
	r.exec(`truncate outbox_event`)

	holder, err := pgx.Connect(t.Context(), r.URL)
	r.must(err)
	defer holder.Close(t.Context())
	_, err = holder.Exec(t.Context(), `begin isolation level repeatable read; select txid_current()`)
	r.must(err)
	held := r.drain(rows)
	first, heldIdle := r.idle()

	t.Logf("entries and blocks of a drain of %d rows %v, with an open transaction %v; of an idle read %v and %v; "+
		"of a start over the dead entries of that many rows %v", rows, free, held, idle, heldIdle, first)
	// Each is read once, looked up once by the settle, and read once more after the start, whose reads prove nothing
	// yet.
	if most := 3 * float64(rows); held.entries > most {
		t.Errorf("a drain beside an open transaction walks over %.0f entries, want at most %.0f", held.entries, most)
	}
	// A start walks once or twice, so one walk may be left in what 300 reads cost.
	if heldIdle.entries > float64(rows)/100 || heldIdle.blocks > float64(rows)/1000+4 {
		t.Errorf("an idle read over dead entries costs %v, want no entry and the way down the index", heldIdle)
	}
}

const fill = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{}', 't', 'k' || n % 100
from generate_series(1, $1::int) n`

// drain returns what it costs the relay to drain so many rows.
func (r *rig) drain(rows int) work {
	r.t.Helper()
	// A session tells late of what it did, the pool's sessions too: these rows come by one that ends.
	writer, err := pgx.ConnectConfig(r.t.Context(), r.store.Conn)
	r.must(err)
	for _, sql := range []string{`set search_path to "` + r.Schema + `"`, fill, `vacuum analyze outbox_event`} {
		args := []any{rows}[:strings.Count(sql, "$1")]
		_, err := writer.Exec(r.t.Context(), sql, args...)
		r.must(err)
	}
	r.must(writer.Close(r.t.Context()))
	return r.costs(func() {
		r.start()
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for deadline := time.Now().Add(10 * time.Minute); r.relay.Stats().Published["t"] < int64(rows); <-again.C {
			if time.Now().After(deadline) {
				r.t.Fatalf("%d of %d rows published", r.relay.Stats().Published["t"], rows)
			}
		}
		r.must(r.end())
	})
}

// idle returns what an idle relay costs as it starts, and afterwards with each read that is no sweep. A start is known
// by a relay that makes few reads, and the rest by one that makes many, before its first sweep.
func (r *rig) idle() (first, each work) {
	r.t.Helper()
	run := func(reads int64) (work, float64) {
		for {
			cost := r.costs(func() {
				r.start()
				r.until("reads", func() bool { return r.relay.Stats().Reads >= reads })
				r.must(r.end())
			})
			if s := r.relay.Stats(); s.Sweeps == 0 {
				return cost, float64(s.Reads)
			}
		}
	}
	few, reads := run(20)
	many, more := run(120)
	n := more - reads
	return few, work{max(0, many.entries-few.entries) / n, max(0, many.blocks-few.blocks) / n}
}

// costs returns what is done costs.
func (r *rig) costs(do func()) work {
	r.t.Helper()
	before := r.work()
	do()
	after := r.work()
	return work{after.entries - before.entries, after.blocks - before.blocks}
}

// work waits for the end of the relay's sessions, since a session tells of its last second when it ends.
func (r *rig) work() (w work) {
	r.t.Helper()
	name := r.store.Conn.RuntimeParams["application_name"]
	r.until("the relay's sessions end", func() bool {
		var sessions int
		r.must(r.Pool.QueryRow(r.t.Context(),
			`select count(*) from pg_stat_activity where application_name = $1`, name).Scan(&sessions))
		return sessions == 0
	})
	r.must(r.Pool.QueryRow(r.t.Context(), workSQL).Scan(&w.entries, &w.blocks))
	return w
}
