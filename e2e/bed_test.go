package e2e_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"posthaste.dev/posthaste/internal/testenv"
)

// bed is what one test works on: a database and topics of its own.
type bed struct {
	t       *testing.T
	ctx     context.Context // of the test
	db      *pgxpool.Pool
	dsn     string
	kafka   brokers
	unique  string // name of the database and prefix of the topics
	topics  []string
	deletes bool // the relays settle by deletion
	started int  // processes

	operator *kadm.Client // once it is wanted
}

// table is the outbox as it stands in SQL. The database is the test's own, so it has the default name.
const table = "public.outbox_event"

// partitions of a topic.
const partitions = 6

// newBed makes a database with the seed's table, and topics, all dropped at the end.
func newBed(t *testing.T, database string, c cluster, topics ...string) *bed {
	t.Helper()
	return makeBed(t, testenv.Require(t, database), c(t), topics...)
}

// makeBed does it on these servers.
func makeBed(t *testing.T, server string, kafka brokers, topics ...string) *bed {
	t.Helper()
	unique := "e2e" + random()
	return bedIn(t, unique, createDatabase(t, server, unique), kafka, topics...)
}

// bedIn does it in a database that is there.
func bedIn(t *testing.T, unique, dsn string, kafka brokers, topics ...string) *bed {
	t.Helper()
	b := &bed{t: t, ctx: t.Context(), kafka: kafka, unique: unique, dsn: dsn, db: connect(t, dsn)}
	ddl, err := os.ReadFile("testdata/seed.sql")
	if err != nil {
		t.Fatal(err)
	}
	b.exec(string(ddl))
	for _, name := range topics {
		b.topics = append(b.topics, b.unique+"."+name)
	}
	if len(topics) > 0 {
		b.createTopics(partitions, nil, b.topics...)
	}
	return b
}

func random() string {
	b := make([]byte, 5)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func createDatabase(t *testing.T, server, name string) string {
	t.Helper()
	admin := connect(t, server)
	if _, err := admin.Exec(t.Context(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func connect(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 60
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// await waits for a condition on the database or a process and fails the test when it does not come about in time.
func (b *bed) await(within time.Duration, what string, ok func() bool) {
	b.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(within); !ok(); <-again.C {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// letPass lets time pass where the passing of time is what a test is about, not a wait for something to be ready.
func (b *bed) letPass(d time.Duration) {
	b.t.Helper()
	select {
	case <-time.After(d):
	case <-b.ctx.Done():
		b.t.Fatal(b.ctx.Err())
	}
}
