package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// large is the number of events of a settle that is worth two connections.
const large = 300

// readMany writes events and reads them: three settles' worth.
func (b *bed) readMany(t *testing.T, s relay.Session) [3][]relay.Ref {
	t.Helper()
	exec(t, b.admin, insertEvents("outbox_event", fmt.Sprint(3*large)))
	all := refs(read(t, s, func(r *relay.Read) { r.Limit = 3 * large }))
	if len(all) != 3*large {
		t.Fatalf("read %d events, want %d", len(all), 3*large)
	}
	return [3][]relay.Ref{all[:large], all[large : 2*large], all[2*large:]}
}

// connections is a condition on those of the relay's role.
func (b *bed) connections(n int) string {
	return fmt.Sprintf("(select count(*) from pg_stat_activity where usename = '%s' and application_name = "+
		"'posthaste relay') = %d", b.relay.User, n)
}

func settle(t *testing.T, s relay.Session, refs []relay.Ref) {
	t.Helper()
	if r := exchange(t, s, relay.Exchange{Settle: refs, Read: everything()}); r.Settled != len(refs) {
		t.Errorf("settled %d of %d", r.Settled, len(refs))
	}
}

func TestLargeSettleTakesTwoConnections(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		for _, mode := range []relay.SettleMode{relay.SettleMark, relay.SettleDelete} {
			b := newBed(t, url, func(c *postgres.Config) { c.Settle = mode })
			s := b.open(t)
			parts := b.readMany(t, s)
			settle(t, s, parts[0][:1])
			waitFor(t, b.admin, b.connections(1))
			settle(t, s, parts[0][1:])
			waitFor(t, b.admin, b.connections(2))
			settle(t, s, parts[1])
			got := query(t, b.admin,
				"select count(distinct xmin::text) from outbox_event where published_at is not null")
			if mode == relay.SettleMark && got != "4" {
				t.Errorf("three settles were made by %s transactions; want 4, for the last one was shared out", got)
			}
			postgres.SetAsideIdle(s, 0)
			settle(t, s, parts[2][:1])
			waitFor(t, b.admin, b.connections(1))
			settle(t, s, parts[2][1:])
			waitFor(t, b.admin, b.connections(2))
			s.Close()
			waitFor(t, b.admin, b.connections(0))
			if left := query(t, b.admin, "select count(*) from outbox_event where published_at is null"); left != "0" {
				t.Errorf("%s: %s events are not settled", mode, left)
			}
		}
	})
}

// Whatever ends one half ends the exchange, and all of it can be settled again.
func TestHalfASettleFails(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		for name, test := range map[string]struct {
			locked int    // the row of the settle that somebody has locked, or
			ended  string // the end of which connection
			want   error  // nil: any
		}{
			"first half locked":  {locked: 0, want: relay.ErrRowsLocked},
			"second half locked": {locked: large - 1, want: relay.ErrRowsLocked},
			"first ended":        {ended: "asc"},
			"second ended":       {ended: "desc"},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBed(t, url)
				s := b.open(t)
				parts := b.readMany(t, s)
				settle(t, s, parts[0])
				waitFor(t, b.admin, b.connections(2))
				if test.ended == "" {
					exec(t, b.admin, "begin",
						fmt.Sprintf("select from outbox_event where id = %d for update", parts[1][test.locked].ID))
				} else {
					exec(t, b.admin, `select pg_terminate_backend((select pid from pg_stat_activity
						where usename = '`+b.relay.User+`' and application_name = 'posthaste relay'
						order by backend_start `+test.ended+` limit 1))`)
					waitFor(t, b.admin, b.connections(1))
					exec(t, b.admin, "begin")
				}
				_, err := s.Exchange(t.Context(), relay.Exchange{Settle: parts[1]})
				if err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("exchange: %v, want %v", err, test.want)
				}
				exec(t, b.admin, "rollback")
				s.Close()
				waitFor(t, b.admin, b.connections(0))
				exchange(t, b.open(t), relay.Exchange{Settle: parts[1]})
				if n := query(t, b.admin, "select count(*) from outbox_event where published_at is null"); n !=
					fmt.Sprint(large) {
					t.Errorf("%s events are not settled, want the %d that nobody has settled", n, large)
				}
			})
		}
	})
}

// A second connection that can't be had, or leads elsewhere, costs nothing but time.
func TestNoSecondConnection(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		for name, test := range map[string]struct {
			change func(t *testing.T, b *bed, target *pgx.ConnConfig)
			reason string
		}{
			"too many": {func(t *testing.T, b *bed, _ *pgx.ConnConfig) {
				exec(t, b.admin, "alter role "+b.relay.User+" connection limit 2") // b has one too
			}, "too many connections"},
			"another database": {func(t *testing.T, b *bed, target *pgx.ConnConfig) {
				other := newBed(t, url)
				exec(t, other.admin, insertEvents("outbox_event", fmt.Sprint(3*large)))
				*target = *other.relay.Copy()
			}, "another server, database or table"},
		} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				var target *pgx.ConnConfig
				b := newBed(t, url, func(c *postgres.Config) {
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
					c.Renew = func() (*pgx.ConnConfig, error) { return target, nil }
				})
				target = b.relay.Copy()
				s := b.open(t)
				parts := b.readMany(t, s)
				test.change(t, b, target)
				for _, part := range parts {
					settle(t, s, part)
				}
				if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), test.reason) {
					t.Errorf("logged %q, want one line that says %q", &log, test.reason)
				}
			})
		}
	})
}
