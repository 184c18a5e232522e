package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/posthastetest"
	"posthaste.dev/posthaste/relay"
)

// The program ends well once both of its events have come, through a relay, to a real Kafka.
func TestHello(t *testing.T) {
	outbox := posthastetest.New(t)
	brokers := testenv.Require(t, testenv.KafkaBrokers)
	t.Setenv("DATABASE_URL", outbox.URL)
	t.Setenv("KAFKA_BROKERS", brokers)
	t.Setenv("POSTHASTE_TABLE", outbox.Table)
	quiet := slog.New(slog.DiscardHandler)
	conn, err := pgx.ParseConfig(outbox.URL)
	must(t, err)
	names, err := postgres.ParseNames(outbox.Table, outbox.SideSchema)
	must(t, err)
	store, err := postgres.NewStore(postgres.Config{Conn: conn, Names: names, Member: t.Name(), Logger: quiet})
	must(t, err)
	producer, err := kafka.NewProducer(kafka.Config{Brokers: strings.Split(brokers, ",")})
	must(t, err)
	defer producer.Close()
	r, err := relay.New(store, producer, relay.Config{Logger: quiet, Interval: 50 * time.Millisecond})
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	err = run(ctx)
	stop()
	must(t, err)
	must(t, <-ended)
}

// What the tutorial shows of the program is the program.
func TestTutorialShowsTheProgram(t *testing.T) {
	tutorial, err := os.ReadFile("../../docs/tutorial.md")
	must(t, err)
	program, err := os.ReadFile("main.go")
	must(t, err)
	_, shown, _ := strings.Cut(string(tutorial), "```go\n")
	shown, _, ok := strings.Cut(shown, "```")
	if !ok || !strings.Contains(string(program), shown) {
		t.Error("docs/tutorial.md shows code that examples/hello does not have")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
