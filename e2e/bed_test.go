package e2e_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/internal/testenv"
)

// cluster names the settings of a Kafka cluster.
type cluster struct{ brokers, pids string }

var (
	oneBroker    = cluster{testenv.KafkaBrokers, testenv.KafkaPids}
	threeBrokers = cluster{testenv.Kafka3Brokers, testenv.Kafka3Pids}
)

// bed is what one test works on: a database and topics of its own.
type bed struct {
	t       *testing.T
	ctx     context.Context // of the test
	db      *pgxpool.Pool
	dsn     string
	brokers []string
	pids    []int  // of the brokers; none where they are the user's
	unique  string // name of the database and prefix of the topics
	topics  []string
	deletes bool // the relays settle by deletion
	started int  // processes
}

// table is the outbox as it stands in SQL. The database is the test's own, so it has the default name.
const table = "public.outbox_event"

// newBed makes a database with the seed's table, and topics with six partitions each, all dropped at the end.
func newBed(t *testing.T, database string, c cluster, topics ...string) *bed {
	t.Helper()
	b := &bed{t: t, ctx: t.Context()}
	server := testenv.Require(t, database)
	b.brokers = strings.Split(testenv.Require(t, c.brokers), ",")
	b.pids = pidsOf(t, c)
	b.unique = "e2e" + random()
	b.dsn = createDatabase(t, server, b.unique)
	b.db = connect(t, b.dsn)
	ddl, err := os.ReadFile("testdata/seed.sql")
	if err != nil {
		t.Fatal(err)
	}
	b.exec(string(ddl))
	for _, name := range topics {
		b.topics = append(b.topics, b.unique+"."+name)
	}
	if len(topics) > 0 {
		b.createTopics(6, b.topics...)
	}
	return b
}

// pidsOf returns the brokers' process ids, none where the brokers are given by the environment without their ids: the
// ids in the test bed's file would be those of other brokers.
func pidsOf(t *testing.T, c cluster) []int {
	list := os.Getenv(c.pids)
	if list == "" && os.Getenv(c.brokers) == "" {
		list = testenv.Get(c.pids)
	}
	var pids []int
	for pid := range strings.SplitSeq(list, ",") {
		if pid == "" {
			continue
		}
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatalf("read %s: %v", c.pids, err)
		}
		pids = append(pids, n)
	}
	return pids
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

// createTopics makes topics, replicated as the cluster's defaults say.
func (b *bed) createTopics(partitions int32, names ...string) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.brokers...))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	created, err := kadm.NewClient(client).CreateTopics(b.ctx, partitions, -1, nil, names...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		b.t.Fatalf("create topics: %v", err)
	}
	b.t.Cleanup(func() {
		client, err := kgo.NewClient(kgo.SeedBrokers(b.brokers...))
		if err != nil {
			b.t.Error(err)
			return
		}
		defer client.Close()
		if _, err := kadm.NewClient(client).DeleteTopics(context.Background(), names...); err != nil {
			b.t.Errorf("delete topics: %v", err)
		}
	})
}

// exec runs a statement.
func (b *bed) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatalf("%v\nin %s", err, sql)
	}
}

// drain waits until nothing is unpublished, or nothing has moved for so long; the verdict then shows what is left.
func (b *bed) drain(patience time.Duration) {
	b.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	moved, last := time.Now(), -1
	for ; time.Since(moved) < patience; <-again.C {
		open, err := check.Unpublished(b.ctx, b.db, table)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		if len(open) != last {
			moved, last = time.Now(), len(open)
		}
	}
}

// readTable returns what the table holds now.
func (b *bed) readTable() []check.Event {
	b.t.Helper()
	events, err := check.ReadTable(b.ctx, b.db, table)
	if err != nil {
		b.t.Fatal(err)
	}
	return events
}

// judge reads table and Kafka and gives the checker's verdict.
func (b *bed) judge(h check.History) check.Report {
	b.t.Helper()
	h.Table, h.Records = b.readTable(), b.readTopics()
	h.Deletes = b.deletes
	return check.Judge(h)
}

// readTopics returns what Kafka holds now.
func (b *bed) readTopics() []check.Record {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	records, err := check.ReadTopics(ctx, b.brokers, b.topics...)
	if err != nil {
		b.t.Fatal(err)
	}
	return records
}

// follow starts a consumer of all topics of the bed.
func (b *bed) follow() *check.Follower {
	b.t.Helper()
	f, err := check.Follow(b.brokers, b.topics...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(f.Close)
	return f
}

// write commits one event in a transaction of its own and returns its id.
func (b *bed) write(key string) int64 {
	b.t.Helper()
	id, err := b.insert(b.db, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// insert writes one event of the key into the bed's first topic.
func (b *bed) insert(db queryRower, key string) (id int64, err error) {
	err = db.QueryRow(b.ctx, `
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		values (gen_random_uuid(), 'Order', $1, 'order.confirmed.v1', '{"n": 1}', $2, $1)
		returning id`, key, b.topics[0]).Scan(&id)
	return id, err
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
