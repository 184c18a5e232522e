package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"posthaste.dev/posthaste/postgres"
)

// PostgreSQL builds no index of a partitioned table concurrently: pressly/goose#292, #794. Here it is built for each
// partition beside the writers and attached, an interrupted run is finished by the next, and a leftover is built anew.
func TestMigrateIndexesPartitions(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		exec(t, d.admin, partitioned, "create sequence ids",
			"alter table outbox_event alter id set default nextval('ids')",
			"create table p1 partition of outbox_event "+
				"for values from (minvalue) to ('55555555-0000-0000-0000-000000000000')",
			`create table "P 2" partition of outbox_event for values from ('55555555-0000-0000-0000-000000000000') to `+
				"('aaaaaaaa-0000-0000-0000-000000000000') partition by hash (id)",
			`create table p2a partition of "P 2" for values with (modulus 2, remainder 0)`,
			`create table p2b partition of "P 2" for values with (modulus 2, remainder 1)`,
			"create table p3 partition of outbox_event default", "create table ix_p3_unpublished ()",
			insertEvents("outbox_event", "30000"))
		err := postgres.Check(t.Context(), d.admin, n)
		wantProblem(t, err, postgres.ErrIndex, "no valid index")

		stop := writeAlong(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		var before []postgres.Step
		_, err = postgres.Migrate(ctx, connect(t, d.config), n, postgres.MigrateOptions{Before: func(s postgres.Step) {
			if before = append(before, s); strings.Contains(s.What, "p2b") {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the run was not interrupted: %v after %v", err, before)
		}
		exec(t, d.admin, "create index b on p2b (id) where published_at is null",
			"update pg_index set indisvalid = false where indexrelid = 'b'::regclass")
		m := up(t, d.admin, n, postgres.MigrateOptions{})
		if err := stop(); err != nil {
			t.Errorf("a writer failed: %v", err)
		}
		for _, s := range m.Steps {
			if strings.Contains(s.What, "partition \"public\".\"p2a\"") {
				t.Errorf("the second run did again: %s", s.What)
			}
		}
		must(t, postgres.Check(t.Context(), d.admin, n))
		const ours = "select string_agg(relname, ' ' order by relname) from pg_class c join pg_index i on oid = " +
			"indexrelid where indpred is not null and indisvalid and relname like 'ix%'"
		want := "ix_P 2_unpublished ix_outbox_event_unpublished ix_p1_unpublished ix_p2a_unpublished " +
			"ix_p2b_unpublished ix_p3_unpublished_2"
		if got := query(t, d.admin, ours); got != want {
			t.Errorf("indexes: %s", got)
		}
		if again := up(t, d.admin, n, postgres.MigrateOptions{}); len(again.Steps) > 0 {
			t.Errorf("third run: %v", again.Steps)
		}
	})
}

// An attachment gives way to an open writer and says so; the writer is not kept waiting.
func TestMigrateGivesWayToWritersOfPartitions(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		d := newDatabase(t, url)
		n := names(t, "outbox_event", "posthaste")
		exec(t, d.admin, partitioned, "create table p1 partition of outbox_event default")
		writer := connect(t, d.config)
		write := "insert into outbox_event select 1, gen_random_uuid(), 'a', 'a', 'a', '{}', 't', 'k'"
		exec(t, writer, "begin", write)
		_, err := postgres.Migrate(t.Context(), d.admin, n, postgres.MigrateOptions{})
		wantProblem(t, err, postgres.ErrBusy, "run it again")
		exec(t, writer, "commit")
		up(t, d.admin, n, postgres.MigrateOptions{})
		must(t, postgres.Check(t.Context(), d.admin, n))
	})
}

// writeAlong writes events until it is stopped; none may wait for more than two seconds.
func writeAlong(t *testing.T, d *database) (stop func() error) {
	t.Helper()
	writer := connect(t, d.config)
	exec(t, writer, "set statement_timeout = '2s'")
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := writer.Exec(context.Background(), insertEvents("outbox_event", "1")); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	return func() error {
		cancel()
		return <-written
	}
}
