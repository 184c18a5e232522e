package e2e_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
)

// A relay of a role that has what posthaste migrate --print-grants gives it, and a writer likewise, need no more.
func TestRelayUnderLeastRights(t *testing.T) {
	for name, database := range map[string]string{"13": pg13, "15": pg15, "18": pg18} {
		t.Run("PostgreSQL "+name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, database, oneBroker, "order.confirmed")
			b.migrate()
			writer, relay := "w_"+b.unique, "r_"+b.unique
			for _, role := range []string{writer, relay} {
				b.exec("create role " + role + " login password 'sesame'")
			}
			t.Cleanup(func() {
				for _, role := range []string{writer, relay} {
					if _, err := b.db.Exec(context.Background(),
						"drop owned by "+role+"; drop role "+role); err != nil {
						t.Error(err)
					}
				}
			})
			b.exec(b.grants("--writer", writer, "--relay", relay, "--operator", relay))

			service := connect(t, as(t, b.dsn, writer))
			spec := b.relay()
			spec.Env = append(spec.Env, "DATABASE_URL="+as(t, b.dsn, relay))
			r := b.start(spec)
			const events = 60
			for range events {
				if _, err := service.Exec(b.ctx, insertAlone, b.topics[0], "k"); err != nil {
					t.Fatal(err)
				}
			}
			b.drain(15 * time.Second)
			b.stop(r)
			report := b.judge(check.History{})
			if err := report.Err(); err != nil || report.Records != events {
				t.Errorf("%s: %v", report, err)
			}
		})
	}
}

// insertAlone needs no right but to insert.
const insertAlone = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
values (gen_random_uuid(), 'Order', $2, 'order.confirmed.v1', '{"n": 1}', $1, $2)`

// grants returns the SQL of posthaste migrate --print-grants.
func (b *bed) grants(flags ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.ctx, posthaste(b.t), append([]string{"migrate", "--print-grants"}, flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "DATABASE_URL=" + b.dsn}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("posthaste migrate --print-grants: %v\n%s", err, complaints.String())
	}
	return string(out)
}

// as returns a connection string of another role.
func as(t *testing.T, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "sesame")
	return u.String()
}
