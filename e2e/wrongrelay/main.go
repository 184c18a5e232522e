// Command wrongrelay is a relay with a mistake of choice, so that the suite can show that it finds mistakes. It takes
// the settings of Posthaste's relay that it knows and is nothing to use.
//
// WRONG_RELAY names the mistake:
//
//	none        no mistake: one relay of several works at a time, in id order, marks after Kafka has acknowledged
//	skip-locked the seed's own way: several work at a time, each on rows that no other has locked, so they lose the
//	            order of a key; one alone keeps it
//	last-id     remembers the last id it has sent and reads on from there, so it loses what commits late
//	mark-first  marks events before it sends them, so it loses them when it dies in between
//	reprint     decodes the payload and prints it again, so numbers change
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

var mistakes = []string{"none", "skip-locked", "last-id", "mark-first", "reprint"}

func main() {
	log.SetFlags(log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	mistake := os.Getenv("WRONG_RELAY")
	if !slices.Contains(mistakes, mistake) {
		return fmt.Errorf("WRONG_RELAY is %q, want one of %s", mistake, strings.Join(mistakes, ", "))
	}
	limit, err := strconv.Atoi(os.Getenv("POSTHASTE_RELAY_BATCH_MAX"))
	if err != nil {
		return fmt.Errorf("read POSTHASTE_RELAY_BATCH_MAX: %w", err)
	}
	log.Printf("starts with mistake %s", mistake)
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("connect to database: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	kafka, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...))
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer kafka.Close()

	r := relay{db: db, kafka: kafka, mistake: mistake, limit: limit}
	for led := mistake == "skip-locked"; ; {
		if !led {
			if err := db.QueryRow(ctx, `select pg_try_advisory_lock(4711)`).Scan(&led); err != nil && ctx.Err() == nil {
				return fmt.Errorf("ask for the lead: %w", err)
			}
		}
		n := 0
		if led && ctx.Err() == nil {
			// What was begun is finished, whatever the signal says.
			if n, err = r.chunk(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		if n == limit {
			continue
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

type relay struct {
	db      *pgx.Conn
	kafka   *kgo.Client
	mistake string
	limit   int
	last    int64
}

// slowSend is how long mark-first waits between its mark and its send.
const slowSend = 150 * time.Millisecond

// chunk reads, sends and marks once and returns how many rows it read.
func (r *relay) chunk(ctx context.Context) (int, error) {
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(ctx)
	rows, err := r.read(ctx, tx)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	mark := func() error {
		ids := make([]int64, len(rows))
		for i, row := range rows {
			ids[i] = row.id
		}
		if _, err := tx.Exec(ctx, `update outbox_event set published_at = now() where id = any($1)`, ids); err != nil {
			return fmt.Errorf("mark events: %w", err)
		}
		return tx.Commit(ctx)
	}
	if r.mistake == "mark-first" {
		if err := mark(); err != nil {
			return 0, err
		}
		select { // a slow send: long enough for whoever looks at the table and at Kafka
		case <-time.After(slowSend):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	records := make([]*kgo.Record, len(rows))
	for i, row := range rows {
		records[i] = row.record
	}
	if err := r.kafka.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return 0, fmt.Errorf("produce: %w", err)
	}
	r.last = rows[len(rows)-1].id
	if r.mistake == "mark-first" {
		return len(rows), nil
	}
	return len(rows), mark()
}
