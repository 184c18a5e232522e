package posthastetest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
)

// The table is the one that the convention lists, made in a schema of the test's own that its connections see first.
func TestNew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const seed = "id event_id aggregate_type aggregate_id event_type payload topic partition_key created_at " +
		"published_at"
	for _, c := range []struct {
		opts    []Option
		table   string
		columns string
	}{
		{nil, "outbox_event", seed},
		{[]Option{Headers(), TableName("Out-Box")}, "Out-Box", seed + " headers"},
	} {
		o := New(t, c.opts...)
		var columns string
		err := o.Pool.QueryRow(ctx, `
			select string_agg(column_name, ' ' order by ordinal_position)
			from information_schema.columns where table_schema = $1 and table_name = $2`,
			o.Schema, c.table).Scan(&columns)
		if err != nil || columns != c.columns {
			t.Errorf("%s has columns %s, %v", o.Table, columns, err)
		}
		for _, connect := range []string{o.URL, ""} {
			var schema string
			if connect == "" {
				err = o.Pool.QueryRow(ctx, `select current_schema()`).Scan(&schema)
			} else {
				var conn *pgx.Conn
				if conn, err = pgx.Connect(ctx, connect); err == nil {
					err = conn.QueryRow(ctx, `select current_schema()`).Scan(&schema)
					conn.Close(ctx)
				}
			}
			if err != nil || schema != o.Schema {
				t.Errorf("the connection is in schema %q, %v", schema, err)
			}
		}
		Existing(t, o.Table).RequireNone(t, o.Pool)
	}
}

// After the test nothing is left, whatever the test made in its schema.
func TestCleanup(t *testing.T) {
	t.Parallel()
	var o *Outbox
	t.Run("inner", func(t *testing.T) {
		o = New(t)
		const own = `create table orders (id text primary key); create view v as select * from outbox_event`
		if _, err := o.Pool.Exec(t.Context(), own); err != nil {
			t.Fatal(err)
		}
	})
	if n := schemas(t, o); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

// A transaction that the test forgot is told, and does not hold the clean-up up.
func TestCloseWithOpenTransaction(t *testing.T) {
	t.Parallel()
	o, err := Open(t.Context(), Database(testenv.Require(t, testenv.DatabaseURL)))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := o.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `lock table outbox_event`); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err == nil || !strings.Contains(err.Error(), "still in use: 1") {
		t.Errorf("Close: %v", err)
	}
	if n := schemas(t, o); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
	tx.Rollback(context.Background())
	o.Pool.Close()
}

func schemas(t *testing.T, o *Outbox) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testenv.Require(t, testenv.DatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	err = conn.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname in ($1, $2)`,
		o.Schema, o.SideSchema).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWithSearchPath(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:p%40s@h:1/d?sslmode=disable": "postgres://u:p%40s@h:1/d?search_path=s%2Cpublic&sslmode=disable",
		"postgresql:///d":                          "postgresql:///d?search_path=s%2Cpublic",
		"host=h user=u dbname='d d'":               "host=h user=u dbname='d d' search_path='s,public'",
	} {
		got, err := withSearchPath(dsn, "s")
		if err != nil || got != want {
			t.Errorf("withSearchPath(%s) = %s, %v", dsn, got, err)
		}
		if config, err := pgx.ParseConfig(got); err != nil || config.RuntimeParams["search_path"] != "s,public" {
			t.Errorf("%s: %v, %v", got, config, err)
		}
	}
	_, err := withSearchPath("postgres://u:secret@h:port/d", "s")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL: %v", err)
	}
}
