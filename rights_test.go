package posthaste_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/posthastetest"
)

// A service's role has the rights that posthaste migrate --print-grants gives a writer, and no more. That is enough for
// every way of writing, in strict mode too, on a table with an identity column and on one with a serial.
func TestWriteUnderLeastRights(t *testing.T) {
	t.Parallel()
	for _, server := range []string{testenv.DatabaseURL13, testenv.DatabaseURL, testenv.DatabaseURL18} {
		for _, serial := range []bool{false, true} {
			outbox := posthastetest.New(t, posthastetest.Database(testenv.Require(t, server)), posthastetest.Headers())
			if serial {
				exec(t, outbox, `alter table outbox_event alter id drop identity; create sequence ids;
					alter table outbox_event alter id set default nextval('ids')`)
			}
			service := asWriter(t, outbox)
			for _, strictly := range []bool{false, true} {
				w := newWriter(t, outbox, headers, func(c *posthaste.Config) { c.Strict = strictly })
				for _, way := range ways() {
					if err := way.write(t.Context(), service, w, confirmed("a"), confirmed("b")); err != nil {
						t.Errorf("%s, serial %v, %s, strict %v: %v", server, serial, way.name, strictly, err)
					}
				}
			}
			for _, statement := range []string{"select from outbox_event", "delete from outbox_event",
				"update outbox_event set topic = 'x'", "insert into outbox_event (published_at) values (now())"} {
				if _, err := service.Pool.Exec(t.Context(), statement); err == nil {
					t.Errorf("a writer may %s", statement)
				}
			}
			for right, sentence := range map[string]string{
				"insert on outbox_event":           "grant insert on the table",
				"usage on schema " + outbox.Schema: "usage on its schema",
				"usage on sequence ids":            "permission denied for sequence ids",
			} {
				if right == "usage on sequence ids" && !serial {
					continue
				}
				exec(t, outbox, "revoke "+right+" from "+role(service))
				err := write(t.Context(), service, newWriter(t, outbox), confirmed("a"))
				if err == nil || !strings.Contains(err.Error(), sentence) ||
					!strings.Contains(err.Error(), "--print-grants") {
					t.Errorf("without %s: %v; want %q in it", right, err, sentence)
				}
				exec(t, outbox, "grant "+right+" to "+role(service))
			}
		}
	}
}

// asWriter returns the outbox with a pool of a role that may write and nothing else.
func asWriter(t *testing.T, outbox *posthastetest.Outbox) *posthastetest.Outbox {
	t.Helper()
	ctx := t.Context()
	name := "writer_" + strings.ToLower(rand.Text())
	exec(t, outbox, "create role "+name+" login password 'sesame'")
	t.Cleanup(func() { exec(t, outbox, "drop owned by "+name+"; drop role "+name) })
	names, err := postgres.ParseNames(outbox.Table, outbox.SideSchema)
	if err != nil {
		t.Fatal(err)
	}
	var sql string
	err = outbox.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		roles := postgres.DefaultRoles()
		roles.Writer = name
		sql, err = postgres.GrantsSQL(ctx, conn.Conn(), names, roles)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	writers, _, _ := strings.Cut(sql, "-- The relays:")
	exec(t, outbox, writers)

	config := outbox.Pool.Config()
	config.ConnConfig.User, config.ConnConfig.Password = name, "sesame"
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	service := *outbox
	service.Pool = pool
	return &service
}

func role(o *posthastetest.Outbox) string {
	return pgx.Identifier{o.Pool.Config().ConnConfig.User}.Sanitize()
}
