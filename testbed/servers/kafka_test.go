package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

func TestBrokerComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "cluster")
	k, err := StartKafka(ctx, KafkaConfig{Brokers: 1, Dir: dir, Properties: map[string]string{"num.partitions": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Remove() })
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made, err := kadm.NewClient(client).CreateTopic(ctx, -1, -1, nil, "kept")
	if err != nil || made.NumPartitions != 7 {
		t.Fatalf("make a topic by the broker's defaults: %d partitions, %v", made.NumPartitions, err)
	}

	b := k.Brokers[0]
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	answers := func() bool {
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		return PingKafka(short, k.Addrs()) == nil
	}
	for answers() { // the signal reaches one thread after the other
		if ctx.Err() != nil {
			t.Fatal("a paused broker answers")
		}
	}
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := PingKafka(ctx, k.Addrs()); err != nil {
		t.Errorf("a resumed broker does not answer: %v", err)
	}
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := k.WaitReady(ctx); err == nil || !contains(err, "ended") {
		t.Errorf("WaitReady with a killed broker = %v, want an error at once", err)
	}
	if err := b.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(client).ListTopics(ctx, "kept")
	if err != nil || len(topics["kept"].Partitions) != 7 {
		t.Errorf("the topic after the restart: %d partitions, %v", len(topics["kept"].Partitions), err)
	}
	if err := k.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there after Remove: %v", err)
	}
}
