package e2e_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// legacy is a bed with the table that nobody may touch, the triggers of examples/sql on it, and a relay.
type legacy struct {
	*bed
	owner *pgxpool.Pool // of the table; may insert into the outbox, and no more
	app   *pgxpool.Pool // the old program; may change the table, and no more
	roles [2]string
	seen  int64 // id of the last event that was looked at
}

func newLegacy(t *testing.T, database string) *legacy {
	t.Helper()
	l := &legacy{}
	l.roles = [2]string{createRole(t, database), createRole(t, database)}
	l.bed = newBed(t, database, oneBroker, "order")
	l.migrate()
	l.owner, l.app = l.as(l.roles[0]), l.as(l.roles[1])
	l.exec(`grant create on schema public to ` + l.roles[0])
	l.exec(`grant insert on outbox_event to ` + l.roles[0])
	l.psql(l.owner, "legacy_order.sql")
	l.exec(`grant select, insert, update, delete on legacy_order to ` + l.roles[1])
	l.psql(l.owner, "trigger.sql")
	l.psql(l.owner, "trigger.sql") // once more changes nothing
	return l
}

func (l *legacy) psql(as *pgxpool.Pool, file string) {
	l.t.Helper()
	cmd := sqlRecipe.shell(l.t, `psql -X -f `+file+` "$DATABASE_URL"`,
		"DATABASE_URL="+as.Config().ConnString(), "SERVICE="+l.unique)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", file, err, out)
	}
}

// expect runs a statement, or several in one transaction, and wants these events, given as "type key".
func (l *legacy) expect(t *testing.T, db *pgxpool.Pool, sql string, want ...string) {
	t.Helper()
	if _, err := db.Exec(l.ctx, sql); err != nil {
		t.Fatalf("%v\nin %s", err, sql)
	}
	l.wrote(t, want...)
}

func (l *legacy) wrote(t *testing.T, want ...string) {
	t.Helper()
	rows, err := l.db.Query(l.ctx, `
		select id, event_type || ' ' || partition_key from outbox_event where id > $1 order by id`, l.seen)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var event string
	if _, err := pgx.ForEachRow(rows, []any{&l.seen, &event}, func() error {
		got = append(got, strings.Replace(event, ".v1", "", 1))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("events written: %q, want %q", got, want)
	}
}

func (l *legacy) refuse(t *testing.T, db *pgxpool.Pool, code, sql string) *pgconn.PgError {
	t.Helper()
	_, err := db.Exec(l.ctx, sql)
	refusal := &pgconn.PgError{}
	if !errors.As(err, &refusal) || refusal.Code != code {
		t.Errorf("error %v, want one of code %s\nin %s", err, code, sql)
	}
	return refusal
}
