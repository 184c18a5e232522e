package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
)

// grounds are the servers that a run takes its places from.
type grounds struct {
	options
	scratch string // folder of the run, for a program and its working directory
	name    string // of the run; its databases and topics begin with it

	mu     sync.Mutex
	made   map[layout]string // databases that are copied for each place of a layout
	places int
	fast   float64         // the rate in events/s from which a subject gets a large backlog
	slow   map[string]bool // what is known of subjects, see sized
}

// layout is what a place holds before a subject comes.
type layout struct {
	events    int // a backlog of so many
	published int // so many rows that were shipped long ago
	keys, run int // see ledger
	topics    int
	three     bool // on the three brokers
}

// usual is the layout of most scenarios.
func usual(events int) layout { return layout{events: events, keys: 1000, run: 8, topics: 1} }

func newGrounds(o options) *grounds {
	unique := make([]byte, 5)
	rand.Read(unique)
	return &grounds{options: o, name: "bench_" + hex.EncodeToString(unique),
		made: map[layout]string{}, fast: 10_000, slow: map[string]bool{}}
}

// template returns the database that places of a layout are copies of, and makes it the first time: all subjects meet
// the same data, and copying files takes a fraction of the time that writing the rows did.
func (g *grounds) template(ctx context.Context, l layout) (name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name, ok := g.made[l]; ok {
		return name, nil
	}
	name = fmt.Sprintf("%s_t%d", g.name, len(g.made))
	if err := g.onServer(ctx, "create database "+name); err != nil {
		return "", fmt.Errorf("make database: %w", err)
	}
	g.made[l] = name
	dsn, err := g.dsn(name)
	if err != nil {
		return "", err
	}
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", fmt.Errorf("connect to database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	return name, l.fill(ctx, db, name)
}

const (
	preload = `
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
select ` + eventSQL + `
from (select n, ` + keySQL + ` as key, ` + topicSQL + ` as topic from generate_series($4::bigint, $5) n) new_event
order by n`

	longAgo = `
insert into outbox_event
    (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
select lpad(to_hex(n), 32, '0')::uuid, 'Order', 'order-' || n % 1000, 'order.confirmed.v1', '{"old": true}', $1,
    'order-' || n % 1000, now()
from generate_series(1, $2::int) n`
)

// fill makes the outbox as every subject finds it, side tables included, and what the layout wants in it.
func (l layout) fill(ctx context.Context, db *pgx.Conn, name string) error {
	names, err := postgres.ParseNames(postgres.DefaultTable, postgres.DefaultSchema)
	if err == nil {
		_, err = postgres.Migrate(ctx, db, names, postgres.MigrateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make outbox: %w", err)
	}
	topics := l.topicsOf(name)
	if l.published > 0 {
		_, err = db.Exec(ctx, longAgo, topics[0], l.published)
	}
	if err == nil && l.events > 0 {
		_, err = db.Exec(ctx, preload, l.keys, l.run, topics, 1, l.events)
	}
	if err == nil {
		_, err = db.Exec(ctx, "vacuum analyze")
	}
	if err != nil {
		return fmt.Errorf("preload events: %w", err)
	}
	return nil
}

func (l layout) topicsOf(name string) []string {
	topics := []string{name}
	for n := 1; n < l.topics; n++ {
		topics = append(topics, fmt.Sprintf("%s.%d", name, n))
	}
	return topics
}

// copyDatabase makes a database as another one is. The files of a large one are copied as they are, between two
// checkpoints, so that every measurement begins right after one.
func (g *grounds) copyDatabase(ctx context.Context, from, to string, large bool) error {
	var version int
	err := g.withServer(ctx, func(db *pgx.Conn) error {
		return db.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&version)
	})
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	how := ""
	if large && version >= 150000 { // which was the only way before
		how = " strategy file_copy"
	}
	if err := g.onServer(ctx, "create database "+to+" template "+from+how); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

func (g *grounds) dsn(database string) (string, error) {
	u, err := url.Parse(g.database)
	if err != nil || u.Scheme == "" {
		return "", errors.New("make database: --database is no URL; want postgres://user:password@host:port/database")
	}
	u.Path = "/" + database
	return u.String(), nil
}

func (g *grounds) onServer(ctx context.Context, sql string) error {
	return g.withServer(ctx, func(db *pgx.Conn) error {
		_, err := db.Exec(ctx, sql)
		return err
	})
}

func (g *grounds) withServer(ctx context.Context, do func(*pgx.Conn) error) error {
	admin, err := pgx.Connect(ctx, g.database)
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	return do(admin)
}

func (g *grounds) kafka(l layout) []string {
	if l.three {
		return strings.Split(g.brokers3, ",")
	}
	return strings.Split(g.brokers, ",")
}

// close takes away what places were copied from, even when the run was interrupted.
func (g *grounds) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, name := range g.made {
		errs = append(errs, g.onServer(ctx, "drop database if exists "+name+" with (force)"))
	}
	return errors.Join(errs...)
}
