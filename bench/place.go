package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/postgres"
)

// place is where one measurement happens: a database and a topic of its own.
type place struct {
	dsn     string
	brokers []string
	topic   string
	scratch string    // folder of the run
	db      *pgx.Conn // of the bench itself
}

// partitions of the topic.
const partitions = 12

// newPlace makes a place; the caller closes it.
func newPlace(ctx context.Context, o options, scratch string) (p place, err error) {
	unique := make([]byte, 5)
	rand.Read(unique)
	name := "bench_" + hex.EncodeToString(unique)
	u, err := url.Parse(o.database)
	if err != nil {
		return place{}, errors.New("make database: --database is no URL; " +
			"want postgres://user:password@host:port/database")
	}
	u.Path = "/" + name
	p = place{dsn: u.String(), brokers: strings.Split(o.brokers, ","), topic: name, scratch: scratch}
	if err := onServer(ctx, o, "create database "+name); err != nil {
		return place{}, fmt.Errorf("make database: %w", err)
	}
	if p.db, err = pgx.Connect(ctx, p.dsn); err != nil {
		return place{}, fmt.Errorf("connect to database: %w", err)
	}
	if err := p.migrate(ctx); err != nil {
		return place{}, fmt.Errorf("make outbox: %w", err)
	}
	err = p.onKafka(func(admin *kadm.Client) error {
		created, err := admin.CreateTopics(ctx, partitions, -1, nil, p.topic)
		if err != nil {
			return err
		}
		return created.Error()
	})
	if err != nil {
		return place{}, fmt.Errorf("make topic: %w", err)
	}
	return p, nil
}

// migrate makes the outbox as every subject finds it, side tables included.
func (p place) migrate(ctx context.Context) error {
	names, err := postgres.ParseNames(postgres.DefaultTable, postgres.DefaultSchema)
	if err != nil {
		return err
	}
	_, err = postgres.Migrate(ctx, p.db, names, postgres.MigrateOptions{})
	return err
}

// unpublished counts the events that are, from an id on.
func (p place) unpublished(ctx context.Context, from int64) (n int, err error) {
	err = p.db.QueryRow(ctx, `select count(*) from outbox_event where published_at is null and id >= $1`, from).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
}

// close takes the place away, even when the run was interrupted.
func (p place) close(ctx context.Context, o options) error {
	ctx = context.WithoutCancel(ctx)
	p.db.Close(ctx)
	err := onServer(ctx, o, "drop database "+p.topic+" with (force)")
	return errors.Join(err, p.onKafka(func(admin *kadm.Client) error {
		_, err := admin.DeleteTopics(ctx, p.topic)
		return err
	}))
}

func onServer(ctx context.Context, o options, sql string) error {
	admin, err := pgx.Connect(ctx, o.database)
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, sql)
	return err
}

func (p place) onKafka(do func(*kadm.Client) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	return do(kadm.NewClient(client))
}

// environment is all that a subject's process sees: no setting of the user's own leaks into a measurement.
func (p place) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
		"DATABASE_URL=" + p.dsn,
		"KAFKA_BROKERS=" + strings.Join(p.brokers, ","),
	}
}
