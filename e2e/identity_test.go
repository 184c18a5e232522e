package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/proxy"
	"posthaste.dev/posthaste/testbed/servers"
)

// Another cluster comes to stand behind the brokers' address, with topics of the same names, while a relay has events
// to send. None of them is acknowledged there: the relay ends with a sentence, a new one is refused, and when the old
// cluster is back, or somebody has given the outbox to the new one, all of them arrive.
func TestAnotherClusterBehindTheAddress(t *testing.T) {
	onlyLong(t)
	b := newBed(t, pg15, ownBroker, "order.confirmed")
	ours := ownKafka(t)
	network := ours.network
	theirs := startTwin(t, network)
	elsewhere := twinTopic(t, theirs, b.topics[0])
	turn := func(address string) {
		network.Aim(address)
		network.Cut()
	}
	defer turn(ours.broker.Listener(byProxy)) // other tests need it
	b.migrate()
	relay := b.start(b.relay())
	b.writeMany(300, 30)
	b.drain(20 * time.Second)

	turn(theirs.Brokers[0].Listener(byProxy))
	b.writeMany(300, 30)
	b.refused(relay.Wait, relay.LogTail)
	again := b.start(b.relay())
	b.refused(again.Wait, again.LogTail)
	if n := elsewhere(); n > 0 {
		t.Errorf("%d records came to the other cluster", n)
	}

	turn(ours.broker.Listener(byProxy))
	b.finish(b.start(b.relay()))

	turn(theirs.Brokers[0].Listener(byProxy))
	b.command("cluster", "accept", "--yes")
	b.writeMany(300, 30)
	relay = b.start(b.relay())
	b.drain(20 * time.Second)
	b.stop(relay)
	if n := elsewhere(); n != 300 {
		t.Errorf("%d records came to the accepted cluster, want 300", n)
	}
}

// startTwin starts a cluster that tells the same address as the suite's own.
func startTwin(t *testing.T, network *proxy.Proxy) *servers.Kafka {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	k, err := servers.StartKafka(ctx, servers.KafkaConfig{
		Brokers: 1, Brief: true, Listeners: []servers.Listener{{Name: byProxy, Advertised: network.Addr()}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Remove(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// twinTopic makes a topic of that name and returns a count of what comes into it.
func twinTopic(t *testing.T, k *servers.Kafka, name string) (count func() int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), partitions, -1, nil, name); err != nil {
		t.Fatal(err)
	}
	return func() (n int64) {
		ends, err := admin.ListEndOffsets(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
		return n
	}
}

// refused wants a relay to end by itself, because of the cluster.
func (b *bed) refused(wait func(context.Context) (int, error), log func(int) string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	status, err := wait(ctx)
	if err != nil || status != 3 || !strings.Contains(log(3), "posthaste cluster accept") {
		b.t.Errorf("a relay before another cluster: status %d, %v; want 3 and the way out in\n%s", status, err, log(3))
	}
}
