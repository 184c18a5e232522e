package relay_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/posthastetest"
	"posthaste.dev/posthaste/relay"
)

// eachServer runs a test on the oldest, the usual and the newest supported PostgreSQL.
func eachServer(t *testing.T, run func(t *testing.T, outbox *posthastetest.Outbox)) {
	t.Parallel()
	for name, key := range map[string]string{
		"13": testenv.DatabaseURL13, "15": testenv.DatabaseURL, "18": testenv.DatabaseURL18,
	} {
		t.Run("PostgreSQL "+name, func(t *testing.T) {
			t.Parallel()
			run(t, posthastetest.New(t, posthastetest.Database(testenv.Require(t, key))))
		})
	}
}

// asRole makes the relay connect as a role of its own, which has these settings and may do what a relay needs.
func (r *rig) asRole(settings ...string) (role string) {
	r.t.Helper()
	role = r.Schema + "_relay"
	r.exec(`create role ` + role + ` login password 'sesame'`)
	r.t.Cleanup(func() { r.drop(`drop owned by `+role, `drop role `+role) })
	for _, schema := range []string{r.Schema, r.SideSchema} {
		r.exec(`grant usage on schema ` + schema + ` to ` + role)
		r.exec(`grant all on all tables in schema ` + schema + ` to ` + role)
		r.exec(`grant all on all sequences in schema ` + schema + ` to ` + role)
	}
	for _, s := range settings {
		r.exec(`alter role ` + role + ` set ` + s)
	}
	r.store.Conn.User, r.store.Conn.Password = role, "sesame"
	return role
}

// loud keeps what the relay logs.
func (r *rig) loud() *logged {
	l := &logged{}
	r.cfg.Logger = slog.New(slog.NewTextHandler(l, nil))
	r.store.Logger = r.cfg.Logger
	return l
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// untilWorking waits until the relay has shipped something.
func (r *rig) untilWorking() {
	r.t.Helper()
	r.write("t", "warm", 1)
	r.untilDrained()
}

// untilTold waits until the relay has logged a reason.
func (r *rig) untilTold(l *logged, reason string) {
	r.t.Helper()
	r.until("told: "+reason, func() bool { return l.count(reason) > 0 })
}

// Limits that role and database set for people are not those of a relay: neither its reads and settles nor the
// connection that waits between two beats are ended by them.
func TestLimitsOfTheRoleEndNothing(t *testing.T) {
	eachServer(t, func(t *testing.T, outbox *posthastetest.Outbox) {
		r := newRigIn(t, outbox, func(r *rig) { r.cfg.BeatInterval = 500 * time.Millisecond })
		settings := []string{"statement_timeout = '5ms'", "lock_timeout = '1ms'",
			"idle_in_transaction_session_timeout = '1ms'", "default_transaction_isolation = 'serializable'"}
		var major int
		r.must(r.Pool.QueryRow(t.Context(), `select current_setting('server_version_num')::int / 10000`).Scan(&major))
		if major >= 14 {
			settings = append(settings, "idle_session_timeout = '200ms'")
		}
		if major >= 17 {
			settings = append(settings, "transaction_timeout = '5ms'")
		}
		r.asRole(settings...)
		r.start().untilWorking()
		before := r.relay.Stats().Errors["database"] // a first statement may be slower than the role allows

		beats := r.beats()
		r.write("t", "k", 3000)
		tx := r.begin()
		_, err := tx.Exec(t.Context(), `lock table outbox_event`)
		r.must(err)
		r.until("a read waits for the table", r.somebodyWaits)
		r.must(tx.Rollback(t.Context()))
		r.untilDrained()
		r.until("three beats", func() bool { return r.beats() >= beats+3 })
		if after := r.relay.Stats().Errors["database"]; after > before {
			t.Errorf("%d failures of the database by limits of the role: %v", after-before, r.relay.Stats())
		}
		r.inOrder(3001)
	})
}

func (r *rig) somebodyWaits() (waits bool) {
	r.t.Helper()
	r.must(r.Pool.QueryRow(r.t.Context(), `
select exists (select from pg_locks where relation = 'outbox_event'::regclass and not granted)`).Scan(&waits))
	return waits
}

// Row-level security gave a worker no rows and no error: TeamWarp/effect-mq#9, graphile/worker#323,
// citusdata/pg_cron#353. Switched on while a relay runs, it is met by the next read; once it is off, or the role may
// bypass it, the relay goes on.
func TestRowSecurityIsFoundAtRunTime(t *testing.T) {
	for name, c := range map[string]struct {
		claim         relay.ClaimMode
		hide, restore string
	}{
		"no policy": {relay.ClaimLanes, `alter table outbox_event enable row level security`,
			`alter table outbox_event disable row level security`},
		"a policy for one tenant": {relay.ClaimLanes, `alter table outbox_event enable row level security;
create policy p on outbox_event using (topic = 'of one tenant')`, `alter role {role} bypassrls`},
		"the owner, by force": {relay.ClaimLanes, `alter table outbox_event owner to {role};
alter table outbox_event enable row level security; alter table outbox_event force row level security`,
			`alter table outbox_event no force row level security`},
		"skip-locked": {relay.ClaimSkipLocked, `alter table outbox_event enable row level security`,
			`alter table outbox_event disable row level security`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.cfg.Claim = c.claim })
			role := r.asRole()
			for _, schema := range []string{r.Schema, r.SideSchema} {
				r.exec(`grant create on schema ` + schema + ` to ` + role)
			}
			log := r.loud()
			r.start().untilWorking()
			r.exec(strings.ReplaceAll(c.hide, "{role}", role))
			r.write("t", "k", 10)
			r.untilTold(log, "row-level security on ")
			if n := r.unpublished(); n != 10 {
				t.Errorf("%d events unpublished, want all 10", n)
			}
			if name == "no policy" { // once is enough, since it takes its time
				r.until("not ready", func() bool {
					s := r.relay.Stats()
					return !s.Ready && strings.Contains(s.Reason, "row-level security on ")
				})
			}
			r.exec(strings.ReplaceAll(c.restore, "{role}", role))
			r.untilDrained()
			r.inOrder(11)
		})
	}
}

// What keeps a relay's connections from being made anew is told, waited for and needs no restart. cut ends what is
// there; the relay then stands before what was changed.
func TestConnectionsThatCanNotBeMadeAnew(t *testing.T) {
	for name, c := range map[string]struct {
		change, reason, restore string
	}{
		"too many connections": {`alter role {role} connection limit 0`, "too many connections",
			`alter role {role} connection limit -1`},
		"read-only": {`alter role {role} set default_transaction_read_only = on`, "are read-only here",
			`alter role {role} reset default_transaction_read_only`},
		"password": {`alter role {role} password 'another'`, "password authentication failed",
			`alter role {role} password 'sesame'`},
		"no login": {`alter role {role} nologin`, "not permitted to log in", `alter role {role} login`},
		"rights": {`revoke update on outbox_event from {role}`, "lacks update on",
			`grant update on outbox_event to {role}`},
		"table": {`alter table outbox_event rename to elsewhere`, "is missing in database",
			`alter table elsewhere rename to outbox_event`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			role := r.asRole()
			log := r.loud()
			r.start().untilWorking()
			r.write("t", "k", 10)
			r.exec(strings.ReplaceAll(c.change, "{role}", role))
			r.cut(role)
			r.untilTold(log, c.reason)
			r.exec(strings.ReplaceAll(c.restore, "{role}", role))
			r.write("t", "k", 10)
			r.untilDrained()
			r.inOrder(21)
			if n := log.count("sesame"); n > 0 {
				t.Error("the log holds the password")
			}
		})
	}
}

// cut ends all connections of a role.
func (r *rig) cut(role string) {
	r.t.Helper()
	r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, role)
}

// Passwords that rotate stand in a file: what connects anew reads it again. While it can't be read, what was read last
// stands.
func TestPasswordIsReadAgain(t *testing.T) {
	var mu sync.Mutex
	var renewed func() (*pgx.ConnConfig, error)
	r := newRig(t, func(r *rig) {
		r.store.Renew = func() (*pgx.ConnConfig, error) {
			mu.Lock()
			defer mu.Unlock()
			return renewed()
		}
	})
	role := r.asRole()
	log := r.loud()
	renew := func(f func() (*pgx.ConnConfig, error)) {
		mu.Lock()
		defer mu.Unlock()
		renewed = f
	}
	renew(func() (*pgx.ConnConfig, error) { return nil, errors.New("read DATABASE_URL_FILE: no such file") })
	r.start().untilWorking()

	r.cut(role) // the file is just being replaced
	r.write("t", "k", 10)
	r.untilDrained()
	if n := log.count("no such file"); n != 1 {
		t.Errorf("the file that can't be read is told of %d times, want once", n)
	}

	r.exec(`alter role ` + role + ` password 'open'`)
	other := r.store.Conn.Copy()
	other.Password = "open"
	renew(func() (*pgx.ConnConfig, error) { return other, nil })
	r.cut(role)
	r.write("t", "k", 10)
	r.untilDrained()
	r.inOrder(21)
}

// A relay has two connections, one that reads and one by which it is a member. Each may break alone.
func TestEitherConnectionBreaks(t *testing.T) {
	for name, which := range map[string]string{
		"the reader's": `not exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory')`,
		"the member's": `exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory')`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			role := r.asRole()
			r.start().untilWorking()
			for range 3 {
				r.write("t", "k", 100)
				broken := 0
				r.until("a connection is broken", func() bool {
					r.must(r.Pool.QueryRow(t.Context(), `
select count(pg_terminate_backend(pid)) from pg_stat_activity a where usename = $1 and `+which, role).Scan(&broken))
					return broken > 0
				})
				r.write("t", "k", 100)
				r.untilDrained()
			}
			r.inOrder(601)
		})
	}
}

// Of several addresses the first may have vanished without a word, as a machine does that lost its power, and the next
// may be a standby. The one behind them is found before the time for joining is over.
func TestServerBehindOneThatIsSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	r := newRig(t, nil)
	r.store.Conn.Fallbacks = append([]*pgconn.FallbackConfig{
		{Host: r.store.Conn.Host, Port: r.store.Conn.Port, TLSConfig: r.store.Conn.TLSConfig}},
		r.store.Conn.Fallbacks...)
	r.store.Conn.Host, r.store.Conn.Port = "127.0.0.1", uint16(silent.Addr().(*net.TCPAddr).Port)
	r.start().untilWorking()
}

// Any collation will do: ids, topics and keys are compared byte by byte, whatever the table's language makes of them.
func TestCollationsChangeNothing(t *testing.T) {
	for name, collation := range map[string]string{"Turkish": "tr-TR-x-icu", "Danish": "da-x-icu"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.cfg.Topics = []relay.TopicRule{{Match: "ISTANBUL.*", Interval: 50 * time.Millisecond}}
			})
			for _, column := range []string{"topic", "partition_key", "aggregate_id", "aggregate_type"} {
				r.exec(fmt.Sprintf(`alter table outbox_event alter %s type text collate %q`, column, collation))
			}
			r.start()
			keys := []string{"I", "ı", "i", "İ", "aa", "å", "AA", "z"}
			for range 5 {
				for i, k := range keys {
					r.write([]string{"ISTANBUL.a", "istanbul.b", "ıstanbul"}[i%3], k, 5)
				}
			}
			r.untilDrained()
			r.inOrder(5 * 5 * len(keys))
		})
	}
}
