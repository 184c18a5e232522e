package posthaste_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/internal/pgname"
	"posthaste.dev/posthaste/posthastetest"
)

func TestSameEventTwice(t *testing.T) {
	t.Parallel()
	outbox := posthastetest.New(t)
	// A role that may only insert is not told which value was refused; a unique index of another name says less still.
	role := "posthaste_insert_" + strings.ToLower(strings.TrimPrefix(outbox.Schema, "posthaste_test_"))
	exec(t, outbox, `create role `+role)
	exec(t, outbox, `grant usage on schema `+outbox.Schema+` to `+role)
	exec(t, outbox, `grant insert on `+outbox.Table+` to `+role)
	t.Cleanup(func() { exec(t, outbox, `drop owned by `+role); exec(t, outbox, `drop role `+role) })

	w := newWriter(t, outbox)
	ctx := t.Context()
	e := confirmed("k")
	e.ID = uuid.Must(uuid.NewV7())
	write := func(role string, events ...posthaste.Event) error {
		return pgx.BeginFunc(ctx, outbox.Pool, func(tx pgx.Tx) error {
			if role != "" {
				if _, err := tx.Exec(ctx, `set local role `+role); err != nil {
					return err
				}
			}
			return w.Write(ctx, tx, events...)
		})
	}
	if err := write(role, e); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		role   string
		events []posthaste.Event
		index  int
		id     uuid.UUID
	}{
		{"among others", "", []posthaste.Event{confirmed("a"), confirmed("b"), e}, 2, e.ID},
		{"alone, by a role that may only insert", role, []posthaste.Event{e}, 0, e.ID},
		{"among others, by that role", role, []posthaste.Event{confirmed("a"), e}, -1, uuid.Nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := write(c.role, c.events...)
			var refused *posthaste.EventError
			if !errors.Is(err, posthaste.ErrDuplicateEvent) || !errors.As(err, &refused) {
				t.Fatalf("want a duplicate event, got %v", err)
			}
			if refused.Index != c.index || refused.EventID != c.id || refused.Field != "event_id" {
				t.Errorf("the duplicate is told as %+v", refused)
			}
			if posthaste.Retriable(err) {
				t.Error("a duplicate is said to be retriable")
			}
			if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) {
				t.Error("the error of the server is hidden")
			}
		})
	}
	for _, way := range ways() {
		if err := way.write(ctx, outbox, w, e); !errors.Is(err, posthaste.ErrDuplicateEvent) {
			t.Errorf("%s: %v", way.name, err)
		}
	}
	outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{ID: e.ID})
	outbox.RequireNone(t, outbox.Pool, posthastetest.Want{Key: "a"}, posthastetest.Want{Key: "b"})
}

// Every wrong database is told with the way out, and with the error of the server inside.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare string // SQL; {{table}} and {{schema}} are replaced
		inTx    string
		change  func(*posthaste.Config)
		want    string
	}{
		{"no table", `drop table {{table}}`, ``, nil,
			"there is no table {{table}}: create it by `posthaste migrate up`"},
		{"no schema", `drop schema {{schema}} cascade`, ``, nil, "create it by `posthaste migrate up`"},
		{"no column headers", ``, ``, headers, "add it by `posthaste migrate up --headers`"},
		{"no column topic", `alter table {{table}} drop column topic`, ``, nil, "lacks a column of an outbox"},
		{"no rights", ``, `set local role pg_monitor`, nil, "grant insert on the table"},
		{"read-only transaction", ``, `set transaction read only`, nil, "write on the primary"},
		{"failed transaction", ``, `do $$ begin raise exception 'x'; end $$`, nil, "an earlier statement has failed"},
		{"sequence behind the ids", `insert into {{table}}
			(id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			overriding system value values (1, gen_random_uuid(), 'a', 'a', 'a', '{}', 'a', 'a')`, ``, nil,
			"the sequence behind id"},
		{"foreign column", `alter table {{table}} add column tenant text not null`, ``, nil,
			"give extra columns a default"},
		{"row swallowed", `
			create function {{schema}}.swallow() returns trigger language plpgsql as 'begin return null; end';
			create trigger swallow before insert on {{table}} for each row execute function {{schema}}.swallow()`,
			``, nil,
			"1 given, but the table {{table}} took 0 rows"},
		{"lock not granted", ``, `set local lock_timeout = 1`, nil, "run the transaction again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			outbox := posthastetest.New(t)
			ctx := t.Context()
			names := strings.NewReplacer("{{table}}", outbox.Table, "{{schema}}", pgname.Quote(outbox.Schema))
			if c.prepare != "" {
				exec(t, outbox, names.Replace(c.prepare))
			}
			if c.name == "lock not granted" {
				if _, err := begin(t, outbox).Exec(ctx, `lock table `+outbox.Table+` in share mode`); err != nil {
					t.Fatal(err)
				}
			}
			w := newWriter(t, outbox)
			if c.change != nil {
				w = newWriter(t, outbox, c.change)
			}
			tx := begin(t, outbox)
			if c.inTx != "" {
				_, err := tx.Exec(ctx, c.inTx)
				if failed := c.name == "failed transaction"; failed != (err != nil) {
					t.Fatal(err)
				}
			}
			err := w.Write(ctx, tx, confirmed("k"))
			if want := names.Replace(c.want); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error is %v, want %q in it", err, want)
			}
			if pg := (*pgconn.PgError)(nil); c.name != "row swallowed" && !errors.As(err, &pg) {
				t.Error("the error of the server is hidden")
			}
			if posthaste.Retriable(err) != (c.name == "lock not granted") {
				t.Errorf("retriable: %v", posthaste.Retriable(err))
			}
		})
	}
}

func TestRetriable(t *testing.T) {
	for code, want := range map[string]bool{"40001": true, "40P01": true, "55P03": true, "23505": false, "": false} {
		if got := posthaste.Retriable(fmt.Errorf("commit: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if posthaste.Retriable(nil) || posthaste.Retriable(errors.New("x")) {
		t.Error("an error without SQLSTATE is said to be retriable")
	}
}
