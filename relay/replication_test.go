package relay_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A subscription brings rows with ids that were drawn elsewhere, in the order of their commits there and not in that of
// the ids. The sequence here knows nothing of them, so they make nothing final and all are found; that new ids of its
// own will collide is told.
func TestEventsBroughtByASubscription(t *testing.T) {
	r := newRig(t, nil)
	log := r.loud()
	source := r.sourceDatabase()
	exec := func(conn *pgx.Conn, sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql, args...)
		r.must(err)
	}
	// The names of published and subscribed tables are the same, schema included.
	exec(source, `create schema `+r.Schema)
	exec(source, `set search_path = `+r.Schema)
	exec(source, `create table outbox_event (id bigint generated always as identity primary key, event_id uuid,
		aggregate_type text, aggregate_id text, event_type text, payload jsonb, topic text, partition_key text,
		created_at timestamptz not null default now(), published_at timestamptz)`)
	exec(source, `create publication events for table outbox_event with (publish = 'insert')`)
	exec(source, `select pg_create_logical_replication_slot($1, 'pgoutput')`, r.Schema)
	r.exec(`create subscription ` + r.Schema + ` connection '` + keywords(source) + `' publication events
		with (create_slot = false, slot_name = '` + r.Schema + `', copy_data = false)`)
	t.Cleanup(func() { // before the table and the source go
		r.drop(`alter subscription `+r.Schema+` disable`, `alter subscription `+r.Schema+` set (slot_name = none)`,
			`drop subscription `+r.Schema)
		r.drop(`select pg_terminate_backend(active_pid) from pg_replication_slots
			where slot_name = '` + r.Schema + `' and active`)
	})
	r.start()

	late, err := pgx.ConnectConfig(t.Context(), source.Config())
	r.must(err)
	defer late.Close(t.Context())
	exec(late, `set search_path = `+r.Schema)
	for range 3 {
		exec(late, `begin`)
		exec(late, insert, "late", "late", 1)
		exec(source, insert, "t", "k", 1500)
		r.until("the later ids flow", func() bool { return r.count("t")%1500 == 0 && r.count("t") > 0 })
		before := r.count("late")
		exec(late, `commit`)
		r.until("the late one is sent", func() bool { return r.count("late") == before+1 })
	}
	r.untilDrained()

	r.must(r.end())
	r.start()
	r.untilTold(log, "behind the highest id 4503")
}

// sourceDatabase makes a database beside the one of the rig, on the same server.
func (r *rig) sourceDatabase() *pgx.Conn {
	r.t.Helper()
	name := r.Schema + "_source"
	r.exec(`create database ` + name)
	config, err := pgx.ParseConfig(r.URL)
	r.must(err)
	config.Database = name
	conn, err := pgx.ConnectConfig(r.t.Context(), config)
	r.must(err)
	r.t.Cleanup(func() {
		conn.Close(context.Background())
		r.drop(`select pg_drop_replication_slot(slot_name) from pg_replication_slots
			where slot_name = '`+r.Schema+`'`, `drop database `+name+` with (force)`)
	})
	return conn
}

// drop runs statements at the end of a test, when the pool of the rig may be closed.
func (r *rig) drop(statements ...string) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, r.URL)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			r.t.Errorf("%s: %v", sql, err)
		}
	}
}

// keywords is how to reach a database, in the words that PostgreSQL itself understands.
func keywords(conn *pgx.Conn) string {
	c := conn.Config()
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=%s", c.Host, c.Port, c.Database, c.User, c.Password)
}
