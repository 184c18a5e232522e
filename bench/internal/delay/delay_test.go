package delay

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/testenv"
)

// A client of the proxies knows no other way to the brokers, and each answer takes as much longer as was said, however
// many are on their way.
func TestDelay(t *testing.T) {
	t.Parallel()
	brokers := strings.Split(testenv.Require(t, testenv.Kafka3Brokers), ",")
	const added = 40 * time.Millisecond
	cluster, err := Start(brokers, added)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	metadata, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, addr := range cluster.Addrs() {
		known[addr] = true
	}
	for _, b := range metadata.Brokers {
		if addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))); !known[addr] {
			t.Errorf("the client is sent to %s, which is no proxy of %v", addr, cluster.Addrs())
		}
	}
	const pings = 20
	began := time.Now()
	done := make(chan error, pings)
	for range pings {
		go func() { done <- client.Ping(ctx) }()
	}
	for range pings {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < added {
		t.Errorf("answers came after %s, want %s at least", took, added)
	}
}
