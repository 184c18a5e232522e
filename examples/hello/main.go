// Command hello writes an event in the transaction of a business change, rolls another one back, and waits for what
// arrives in Kafka. It needs DATABASE_URL and KAFKA_BROKERS, an outbox (public.outbox_event, or POSTHASTE_TABLE), and a
// relay; docs/tutorial.md leads here.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste"
)

// GreetingSent is what the event says; the writer adds its id, type, time and aggregate.
type GreetingSent struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

var greetingSentV1 = posthaste.EventType{
	Service:   "hello-service",
	Aggregate: "Greeting",
	Name:      "greeting.sent",
	Version:   1,
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal("hello: ", err)
	}
}

func run(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `create table if not exists greeting (name text primary key, text text not null)`)
	if err != nil {
		return err
	}
	types, err := posthaste.NewRegistry(greetingSentV1)
	if err != nil {
		return err
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: types, Table: os.Getenv("POSTHASTE_TABLE")})
	if err != nil {
		return err
	}
	greeting, _ := types.Lookup(greetingSentV1.String())
	kafka, err := consume(ctx, greeting.Topic)
	if err != nil {
		return err
	}
	defer kafka.Close()

	greet := func(tx pgx.Tx, name, text string) error {
		_, err := tx.Exec(ctx,
			`insert into greeting values ($1, $2) on conflict (name) do update set text = $2`, name, text)
		if err != nil {
			return err
		}
		return writer.Write(ctx, tx, posthaste.Event{
			Type:        greetingSentV1.String(),
			AggregateID: name, // its events stay in order
			Payload:     GreetingSent{To: name, Text: text},
		})
	}
	// Both are committed: the greeting and its event.
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return greet(tx, "ada", "hello") }); err != nil {
		return err
	}
	fmt.Println("committed: hello, ada")
	// Neither is: the function fails, so the transaction is rolled back.
	regret := errors.New("not like this")
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return errors.Join(greet(tx, "bob", "hey you"), regret) })
	if !errors.Is(err, regret) {
		return err
	}
	fmt.Println("rolled back: hey you, bob")
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return greet(tx, "ada", "goodbye") }); err != nil {
		return err
	}
	fmt.Println("committed: goodbye, ada")

	for arrived := 0; arrived < 2; {
		fetches := kafka.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			arrived++
			fmt.Printf("arrived in %s: %s %s\n", r.Topic, r.Key, r.Value)
			for _, h := range r.Headers {
				fmt.Printf("  %s: %s\n", h.Key, h.Value)
			}
		})
	}
	return nil
}

// consume makes the topic, if it is missing, and reads it from now on.
func consume(ctx context.Context, topic string) (*kgo.Client, error) {
	brokers := kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...)
	client, err := kgo.NewClient(brokers)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return nil, fmt.Errorf("make topic %s: %w", topic, err)
	}
	var ends kadm.ListedOffsets
	for ends.Error() != nil || len(ends) == 0 { // a broker learns of a new topic a moment later
		if ends, err = admin.ListEndOffsets(ctx, topic); err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("find the end of topic %s: %w", topic, err)
		}
	}
	return kgo.NewClient(brokers, kgo.ConsumePartitions(ends.KOffsets()))
}
