package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
)

// eachMajor runs a test on the oldest, the usual and the newest supported PostgreSQL.
func eachMajor(t *testing.T, run func(t *testing.T, url string)) {
	t.Parallel()
	for name, key := range map[string]string{
		"13": testenv.DatabaseURL13, "15": testenv.DatabaseURL, "18": testenv.DatabaseURL18,
	} {
		t.Run("PostgreSQL "+name, func(t *testing.T) {
			t.Parallel()
			run(t, testenv.Require(t, key))
		})
	}
}

// database is an empty database of one test, dropped at its end.
type database struct {
	t      testing.TB
	name   string
	config *pgx.ConnConfig
	admin  *pgx.Conn // as the superuser, in this database
}

func newDatabase(t testing.TB, url string, options ...string) *database {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	must(t, err)
	server := connect(t, config)
	d := &database{t: t, name: "migrate_" + strings.ToLower(rand.Text()), config: config.Copy()}
	exec(t, server, "create database "+d.name+" "+strings.Join(options, " "))
	t.Cleanup(func() { exec(t, server, "drop database "+d.name+" with (force)") })
	d.config.Database = d.name
	d.admin = connect(t, d.config)
	return d
}

// empty makes the database as it was, for the next of several cases.
func (d *database) empty(t testing.TB) {
	t.Helper()
	exec(t, d.admin, "drop schema if exists posthaste cascade", "drop schema public cascade", "create schema public")
}

// role makes a role that may log in to this database, and returns a connection of it.
func (d *database) role(settings ...string) (name string, conn *pgx.Conn) {
	d.t.Helper()
	name = "role_" + strings.ToLower(rand.Text())
	exec(d.t, d.admin, "create role "+name+" login password 'sesame'")
	d.t.Cleanup(func() { exec(d.t, d.admin, "drop owned by "+name, "drop role "+name) })
	for _, s := range settings {
		exec(d.t, d.admin, "alter role "+name+" set "+s)
	}
	config := d.config.Copy()
	config.User, config.Password = name, "sesame"
	return name, connect(d.t, config)
}

func connect(t testing.TB, config *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// query returns one value as text.
func query(t testing.TB, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	var got string
	row := conn.QueryRow(context.Background(), "select coalesce(("+sql+")::text, 'null')", args...)
	if err := row.Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// waitFor asks the server until a condition holds there.
func waitFor(t testing.TB, conn *pgx.Conn, condition string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-again.C {
		if query(t, conn, condition) == "true" {
			return
		}
	}
	t.Fatalf("never: %s", condition)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantProblem checks that an error is of a kind and says a text.
func wantProblem(t testing.TB, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v; want %q, with %q in it", err, kind, text)
	}
}

func names(t testing.TB, table, schema string) postgres.Names {
	t.Helper()
	n, err := postgres.ParseNames(table, schema)
	must(t, err)
	return n
}

func up(t testing.TB, conn *pgx.Conn, n postgres.Names, opts postgres.MigrateOptions) *postgres.Migration {
	t.Helper()
	m, err := postgres.Migrate(t.Context(), conn, n, opts)
	must(t, err)
	return m
}

// seedTable is the seed's listing, on another name.
func seedTable(table, index string) string {
	return `
CREATE TABLE ` + table + ` (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id        uuid        NOT NULL UNIQUE,
    aggregate_type  text        NOT NULL,
    aggregate_id    text        NOT NULL,
    event_type      text        NOT NULL,
    payload         jsonb       NOT NULL,
    topic           text        NOT NULL,
    partition_key   text        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    published_at    timestamptz
);
CREATE INDEX ` + index + `
    ON ` + table + ` (id)
    WHERE published_at IS NULL;`
}

// insertEvents returns the statement that writes n events.
func insertEvents(table string, n string) string {
	return `
insert into ` + table + ` (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select gen_random_uuid(), 'Order', 'k', 'order.confirmed.v1', '{"n":1}', 't1', 'k' from generate_series(1, ` + n + `)`
}
