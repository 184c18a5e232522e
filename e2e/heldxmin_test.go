package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"posthaste.dev/posthaste/testbed/servers"
)

// Dead rows pile up when something keeps the horizon of a cluster old, and there are more ways to that than an open
// transaction. In each of them a backlog drains as ever: every entry of the index is read, settled, and read once more
// after the start. (The rates are for people: the machine has other work, too.)
func TestDrainUnderAnOldHorizon(t *testing.T) {
	onlyLong(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db, err := servers.StartPostgres(ctx, servers.PostgresConfig{Major: 15})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Remove(); err != nil {
			t.Error(err)
		}
	})
	ways := []struct {
		name string
		hold func(b *bed, server string) (end func())
	}{
		{"nothing", func(*bed, string) func() { return func() {} }},
		{"an idle transaction of another database", holdByTransaction},
		{"a physical slot whose standby has gone", holdByStandby},
		{"an idle logical slot", holdByLogicalSlot},
		{"a prepared transaction", holdByPrepared},
	}
	const rows = 300_000
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			b := makeBed(t, db.URL(), oneBroker(t), "order.confirmed")
			b.migrate()
			defer way.hold(b, db.URL())()
			b.fill(rows, 200)
			b.exec("vacuum analyze outbox_event")
			spec := b.relay()
			spec.Env = []string{"DATABASE_URL=" + b.dsn, "KAFKA_BROKERS=" + strings.Join(b.kafka.relays, ","),
				"POSTHASTE_HTTP_ADDR="}
			began := time.Now()
			relay := b.start(spec)
			b.await(5*time.Minute, "the last event is published", func() bool {
				var last bool
				b.ok(b.db.QueryRow(b.ctx, `select published_at is not null from outbox_event where id = $1`, rows).
					Scan(&last))
				return last
			})
			rate := rows / time.Since(began).Seconds()
			b.drain(20 * time.Second)
			b.stop(relay)
			var entries float64
			b.await(10*time.Second, "the relay's sessions end", func() bool {
				var sessions int
				b.ok(b.db.QueryRow(b.ctx, `
					select count(*) from pg_stat_activity
					where application_name = 'posthaste relay' and datname = current_database()`).Scan(&sessions))
				return sessions == 0
			})
			b.ok(b.db.QueryRow(b.ctx, `select idx_tup_read from pg_stat_user_indexes
				where indexrelname = 'ix_outbox_event_unpublished'`).Scan(&entries))
			t.Logf("%.0f events a second, %.2f entries walked over for each", rate, entries/rows)
			if entries > 4*rows {
				t.Errorf("%.1f entries are walked over for each event, want at most 4", entries/rows)
			}
		})
	}
}

// holdByTransaction leaves a transaction open that has a snapshot and an id.
func holdByTransaction(b *bed, server string) func() {
	conn, err := pgx.Connect(b.ctx, server)
	b.ok(err)
	_, err = conn.Exec(b.ctx, `begin isolation level repeatable read; select txid_current()`)
	b.ok(err)
	return func() { b.ok(conn.Close(context.Background())) }
}

// holdByStandby does what a standby with hot_standby_feedback does, and goes: its slot keeps the horizon it told.
func holdByStandby(b *bed, server string) func() {
	slot := "gone_" + random()
	b.exec(`select pg_create_physical_replication_slot($1, true)`, slot)
	var xid uint32
	var wal string
	b.ok(b.db.QueryRow(b.ctx, `select txid_current()::text::bigint, pg_current_wal_lsn()::text`).Scan(&xid, &wal))
	conn, err := pgconn.Connect(b.ctx, server+"&replication=yes")
	b.ok(err)
	conn.Frontend().SendQuery(&pgproto3.Query{
		String: fmt.Sprintf("START_REPLICATION SLOT %s PHYSICAL %s", slot, wal)})
	b.ok(conn.Frontend().Flush())
	for streaming := false; !streaming; {
		message, err := conn.ReceiveMessage(b.ctx)
		b.ok(err)
		if refusal, ok := message.(*pgproto3.ErrorResponse); ok {
			b.t.Fatal(refusal.Message)
		}
		_, streaming = message.(*pgproto3.CopyBothResponse)
	}
	feedback := []byte{'h'}
	feedback = binary.BigEndian.AppendUint64(feedback, 0) // the time
	for _, part := range []uint32{xid, 0, 0, 0} {         // xmin and catalog_xmin, each with its epoch
		feedback = binary.BigEndian.AppendUint32(feedback, part)
	}
	conn.Frontend().Send(&pgproto3.CopyData{Data: feedback})
	b.ok(conn.Frontend().Flush())
	b.await(10*time.Second, "the slot keeps the horizon", func() bool {
		var kept bool
		b.ok(b.db.QueryRow(b.ctx, `select xmin is not null from pg_replication_slots where slot_name = $1`, slot).
			Scan(&kept))
		return kept
	})
	b.ok(conn.Close(b.ctx))
	return func() { b.dropSlot(slot) }
}

func holdByLogicalSlot(b *bed, _ string) func() {
	slot := "idle_" + random()
	b.exec(`select pg_create_logical_replication_slot($1, 'pgoutput')`, slot)
	return func() { b.dropSlot(slot) }
}

func (b *bed) dropSlot(slot string) {
	b.await(10*time.Second, "the slot is free", func() bool {
		_, err := b.db.Exec(context.Background(), `select pg_drop_replication_slot($1)`, slot)
		return err == nil
	})
}

func holdByPrepared(b *bed, _ string) func() {
	gid := "forgotten " + random()
	for _, sql := range []string{`create table other (id int)`,
		`begin; insert into other values (1); prepare transaction '` + gid + `'`} {
		_, err := b.db.Exec(b.ctx, sql)
		b.ok(err)
	}
	return func() {
		_, err := b.db.Exec(context.Background(), `rollback prepared '`+gid+`'`)
		b.ok(err)
	}
}
