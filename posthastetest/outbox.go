// Package posthastetest gives tests an outbox of their own in a real PostgreSQL, and says whether a transaction wrote
// the events it should have.
//
//	func TestConfirmOrder(t *testing.T) {
//		outbox := posthastetest.New(t)
//		tx, err := outbox.Pool.Begin(t.Context())
//		...
//		outbox.RequireWritten(t, tx, posthastetest.Want{Type: "order.confirmed.v1", Key: orderID})
//	}
//
// The server is the one that POSTHASTE_TEST_DATABASE_URL names, inside the project's own repository by default the one
// that `go run ./testbed up` started; the role must be allowed to create schemas. Nothing here is mocked: what
// PostgreSQL would refuse in production is refused in the test.
//
// Every Outbox has a schema of its own, so tests may run in parallel. The assertions may be called from any goroutine
// that may call t.FailNow.
package posthastetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste/internal/pgname"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
)

// Outbox is an outbox table, empty at first, and for those made by New or Open the database it is in.
type Outbox struct {
	// Pool connects to the database with Schema in front of public in its search_path, so that a service's own tables
	// can be made and found there without a schema name.
	Pool *pgxpool.Pool

	// URL connects like Pool does, for other drivers and processes.
	URL string

	// Schema holds the outbox table and is there for the test's own tables. It is dropped with everything in it.
	Schema string

	// Table is the outbox table, qualified, for posthaste.Config.Table and POSTHASTE_TABLE.
	Table string

	// SideSchema holds the relays' side tables, for POSTHASTE_SCHEMA. It is dropped too.
	SideSchema string

	admin   string // connection string without the schema
	table   pgname.Table
	columns pgname.Columns
}

// Option changes how an Outbox is made.
type Option func(*options)

type options struct {
	url     string
	table   string
	headers bool
	columns map[string]string
}

// Columns gives the table's columns other names, as posthaste.Config.Columns and POSTHASTE_COLUMNS do.
func Columns(mapping map[string]string) Option { return func(o *options) { o.columns = mapping } }

// Headers adds the optional column headers jsonb.
func Headers() Option { return func(o *options) { o.headers = true } }

// TableName gives the table another name than outbox_event. It is taken as it is, capitals and dashes included.
func TableName(name string) Option { return func(o *options) { o.table = name } }

// Database makes the outbox on another server than that of POSTHASTE_TEST_DATABASE_URL.
func Database(url string) Option { return func(o *options) { o.url = url } }

// New makes an outbox by the same migration as `posthaste migrate up`, and drops it when the test ends. It fails the
// test where there is no server, and under -short skips it.
func New(t testing.TB, opts ...Option) *Outbox {
	t.Helper()
	o := options{table: "outbox_event"}
	for _, opt := range opts {
		opt(&o)
	}
	if o.url == "" {
		o.url = testenv.Require(t, testenv.DatabaseURL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	outbox, err := open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := outbox.Close(); err != nil {
			t.Error(err)
		}
	})
	return outbox
}

// Open is New where there is no test at hand, as in an Example or TestMain. The caller closes the Outbox.
func Open(ctx context.Context, opts ...Option) (*Outbox, error) {
	o := options{table: "outbox_event", url: testenv.Get(testenv.DatabaseURL)}
	for _, opt := range opts {
		opt(&o)
	}
	if o.url == "" {
		return nil, fmt.Errorf("open test outbox: no server: set %s", testenv.DatabaseURL)
	}
	return open(ctx, o)
}

// Existing is an outbox that is there already, made by a service's own migrations, for the assertions alone: it has no
// Pool and nothing to close. The table is named as in SQL; of the options, Columns alone says something here.
func Existing(t testing.TB, table string, opts ...Option) *Outbox {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	name, err := pgname.ParseTable(table)
	columns, cerr := pgname.MapColumns(o.columns)
	if err := errors.Join(err, cerr); err != nil {
		t.Fatal(err)
	}
	return &Outbox{Schema: name.Schema, Table: name.String(), table: name, columns: columns}
}

func open(ctx context.Context, opts options) (*Outbox, error) {
	schema := "posthaste_test_" + strings.ToLower(rand.Text()[:12])
	o := &Outbox{Schema: schema, SideSchema: schema + "_side", admin: opts.url}
	o.table = pgname.Table{Schema: schema, Name: opts.table}
	o.Table = o.table.String()
	var err error
	if o.columns, err = pgname.MapColumns(opts.columns); err != nil {
		return nil, fmt.Errorf("make test outbox: %w", err)
	}
	if o.URL, err = withSearchPath(opts.url, schema); err != nil {
		return nil, err
	}
	if err := o.create(ctx, opts.headers); err != nil {
		return nil, fmt.Errorf("make test outbox: %w", errors.Join(err, o.drop()))
	}
	config, err := pgxpool.ParseConfig(o.URL)
	if err == nil {
		// By this name Close finds the sessions that a test forgot.
		config.ConnConfig.RuntimeParams["application_name"] = schema
		o.Pool, err = pgxpool.NewWithConfig(ctx, config)
	}
	if err != nil {
		return nil, fmt.Errorf("make test outbox: %w", errors.Join(err, o.drop()))
	}
	return o, nil
}

func (o *Outbox) create(ctx context.Context, headers bool) error {
	conn, err := pgx.Connect(ctx, o.admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "create schema "+pgname.Quote(o.Schema)); err != nil {
		return err
	}
	names := postgres.Names{Table: o.table, Schema: o.SideSchema, Columns: o.columns}
	_, err = postgres.Migrate(ctx, conn, names, postgres.MigrateOptions{Headers: headers})
	return err
}

// Close drops both schemas and closes the pool. Connections of the pool that are still in use are an error, and are
// ended by force, since their locks would hold the drop up for ever.
func (o *Outbox) Close() error {
	if o.Pool == nil {
		return nil
	}
	var forgotten error
	if n := o.Pool.Stat().AcquiredConns(); n > 0 {
		forgotten = fmt.Errorf("close test outbox: connections of its pool still in use: %d: "+
			"end every transaction before the test ends", n)
	} else {
		o.Pool.Close()
	}
	return errors.Join(forgotten, o.drop())
}

const endSessionsSQL = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1`

func (o *Outbox) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, o.admin)
	if err != nil {
		return fmt.Errorf("drop test outbox: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, endSessionsSQL, o.Schema); err != nil {
		return fmt.Errorf("drop test outbox: %w", err)
	}
	drop := "drop schema if exists " + pgname.Quote(o.Schema) + ", " + pgname.Quote(o.SideSchema) + " cascade"
	if _, err := conn.Exec(ctx, "set client_min_messages = warning; set lock_timeout = '20s'; "+drop); err != nil {
		return fmt.Errorf("drop test outbox: %w", err)
	}
	return nil
}

// withSearchPath adds the schema to a connection string of either form.
func withSearchPath(dsn, schema string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " search_path='" + schema + ",public'", nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("make test outbox: the connection URL can't be read") // the cause would show the password
	}
	query := u.Query()
	query.Set("search_path", schema+",public")
	u.RawQuery = query.Encode()
	return u.String(), nil
}
