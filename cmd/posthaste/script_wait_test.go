package main

import (
	"context"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// until runs a program again and again until its standard output matches, whatever its exit status.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM ARGS...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-again.C {
		_ = ts.Exec(args[1], args[2:]...)
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("never: %s", args[0])
}

// topic makes a topic of one partition on the brokers of $KAFKA_BROKERS, for as long as the script runs.
func topic(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: topic NAME")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("KAFKA_BROKERS")))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	admin := kadm.NewClient(client)
	ts.Defer(func() {
		_, _ = admin.DeleteTopics(ctx, args[0])
		client.Close()
		cancel()
	})
	_, err = admin.CreateTopic(ctx, 1, 1, nil, args[0])
	ts.Check(err)
}
