package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where one measurement happens: a database and topics of its own.
type place struct {
	grounds *grounds
	name    string // of the database
	dsn     string
	brokers []string
	topics  []string
	ledger  *ledger
	db      *pgx.Conn // of the bench itself
}

// partitions of a topic, where there are not many.
const partitions = 12

// place makes a place with the subject's own things in it; the caller closes it. Two places of one layout must not be
// open at the same time: they have the same topics.
func (g *grounds) place(ctx context.Context, l layout, s Subject) (p place, err error) {
	template, err := g.template(ctx, l)
	if err != nil {
		return place{}, err
	}
	g.mu.Lock()
	g.places++
	p.name = fmt.Sprintf("%s_%d", g.name, g.places)
	g.mu.Unlock()
	if p.dsn, err = g.dsn(p.name); err != nil {
		return place{}, err
	}
	p.grounds, p.brokers, p.topics = g, g.kafka(l), l.topicsOf(template)
	p.ledger = &ledger{keys: l.keys, run: l.run, topics: p.topics, next: 1 + l.events}
	if err := g.copyDatabase(ctx, template, p.name, l.events+l.published >= 50_000); err != nil {
		return place{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(ctx))
		}
	}()
	if p.db, err = pgx.Connect(ctx, p.dsn); err != nil {
		return p, fmt.Errorf("connect to database: %w", err)
	}
	if err := p.makeTopics(ctx); err != nil {
		return p, fmt.Errorf("make topics: %w", err)
	}
	return p, s.Prepare(ctx, p)
}

// makeTopics makes the topics, which the place before this one may have deleted a moment ago, and waits until each
// broker knows them by the ids that they have now.
func (p place) makeTopics(ctx context.Context) error {
	parts := int32(partitions)
	if len(p.topics) > 1 {
		parts = 1
	}
	ids := map[string]kadm.TopicID{}
	err := onKafka(p.brokers, func(admin *kadm.Client) error {
		created, err := admin.CreateTopics(ctx, parts, -1, nil, p.topics...)
		for _, t := range created {
			if t.Err != nil && err == nil {
				err = fmt.Errorf("%s: %w", t.Topic, t.Err)
			}
			ids[t.Topic] = t.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, broker := range p.brokers {
		for known := false; !known; {
			err := onKafka([]string{broker}, func(admin *kadm.Client) error {
				topics, err := admin.ListTopics(ctx, p.topics...)
				known = err == nil
				for name, id := range ids {
					t := topics[name]
					known = known && t.Err == nil && t.ID == id && ready(t.Partitions, int(parts))
				}
				return err
			})
			if err != nil {
				return err
			}
			if !known && !pause(ctx, 20*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// ready tells whether all partitions have a leader.
func ready(partitions kadm.PartitionDetails, want int) bool {
	for _, part := range partitions {
		if part.Err != nil || part.Leader < 0 {
			return false
		}
	}
	return len(partitions) == want
}

// close takes the place away, even when the run was interrupted.
func (p place) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if p.db != nil {
		p.db.Close(ctx)
	}
	err := p.grounds.onServer(ctx, "drop database if exists "+p.name+" with (force)")
	return errors.Join(err, onKafka(p.brokers, func(admin *kadm.Client) error {
		deleted, err := admin.DeleteTopics(ctx, p.topics...)
		for _, t := range deleted {
			if err == nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
				err = t.Err
			}
		}
		return err
	}))
}

func onKafka(brokers []string, do func(*kadm.Client) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	return do(kadm.NewClient(client))
}

// preload writes a backlog in one transaction and returns the first of its numbers.
func (p place) preload(ctx context.Context, events int) (first int, err error) {
	l := p.ledger
	first = l.take(events)
	if _, err := p.db.Exec(ctx, preload, l.keys, l.run, l.topics, first, first+events-1); err != nil {
		return 0, fmt.Errorf("write events: %w", err)
	}
	return first, nil
}

// unpublished counts the events that are, from an id on.
func (p place) unpublished(ctx context.Context, from int64) (n int, err error) {
	err = p.db.QueryRow(ctx, `select count(*) from outbox_event where published_at is null and id >= $1
		and topic = any($2)`, from, p.topics).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
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
