package e2e_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/proxy"
	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/testbed/servers"
)

// brokers are a Kafka as a test sees it.
type brokers struct {
	addrs  []string // for the test's own clients
	relays []string // for relays, which may take another way
	pids   []int    // none where the brokers are the user's
}

// cluster is a Kafka that a test can have.
type cluster func(t *testing.T) brokers

var (
	oneBroker    = shared(testenv.KafkaBrokers, testenv.KafkaPids)
	threeBrokers = shared(testenv.Kafka3Brokers, testenv.Kafka3Pids)
)

// shared is a cluster of the test bed, or the user's.
func shared(addrs, pids string) cluster {
	return func(t *testing.T) brokers {
		t.Helper()
		list := strings.Split(testenv.Require(t, addrs), ",")
		k := brokers{addrs: list, relays: list}
		for pid := range strings.SplitSeq(testenv.Get(pids), ",") {
			if pid == "" {
				continue
			}
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatalf("read %s: %v", pids, err)
			}
			k.pids = append(k.pids, n)
		}
		return k
	}
}

// ownBroker is for tests that stop, kill or cut off their broker. It is the suite's own, so these tests run whatever
// servers are given, and beside tests on the others; each has the broker for itself alone until its bed is gone.
func ownBroker(t *testing.T) brokers {
	t.Helper()
	k := ownKafka(t)
	return brokers{addrs: []string{k.broker.Addr}, relays: []string{k.network.Addr()}, pids: []int{k.broker.Pid()}}
}

// private is a Kafka of one broker, with a proxy between it and the relays.
type private struct {
	cluster *servers.Kafka
	broker  *servers.Broker
	network *proxy.Proxy
}

// own are the suite's two. Each starts when it is first wanted and is removed at the end of the run. A test has one for
// itself alone, in its subtests the same.
var own = struct {
	free chan *private

	sync.Mutex
	holders map[string]*private // by the test's name without those of subtests
}{free: make(chan *private, 2), holders: make(map[string]*private)}

func init() {
	for range cap(own.free) {
		own.free <- &private{}
	}
}

// ownKafka returns the one that the test has, and waits for one that is free if it has none.
func ownKafka(t *testing.T) *private {
	t.Helper()
	root, _, _ := strings.Cut(t.Name(), "/")
	own.Lock()
	k := own.holders[root]
	own.Unlock()
	if k == nil {
		k = <-own.free
		own.Lock()
		own.holders[root] = k
		own.Unlock()
		t.Cleanup(func() {
			own.Lock()
			delete(own.holders, root)
			own.Unlock()
			own.free <- k
		})
	}
	if k.cluster == nil {
		if err := k.start(); err != nil {
			t.Fatalf("this test does harm to a broker, so it starts its own: %v", err)
		}
	}
	return k
}

// ownSecret is the password of secureUser at the suite's own broker.
const ownSecret = "ownsecret"

// guarded are the properties of brokers that obey rules: who comes by a listener without SASL has no name and may do
// everything, all others may do what no rule is about.
var guarded = map[string]string{
	"authorizer.class.name":           "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users":                     "User:ANONYMOUS",
	"allow.everyone.if.no.acl.found":  "true",
	"log.retention.check.interval.ms": "1000", // not five minutes
	"log.initial.task.delay.ms":       "1000", // not thirty seconds
	"quota.window.num":                "3",    // a quota is a mean of two seconds, not of ten
}

func removeOwn() (err error) {
	for range cap(own.free) {
		if k := <-own.free; k.cluster != nil {
			err = errors.Join(err, k.remove())
		}
	}
	return err
}

// byProxy is the listener that is reached by the proxy.
const byProxy = "PROXY"

func (k *private) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	network, err := proxy.New("")
	if err != nil {
		return err
	}
	kafka, err := servers.StartKafka(ctx, servers.KafkaConfig{
		Brokers: 1, Brief: true,
		Listeners: []servers.Listener{
			{Name: byProxy, Advertised: network.Addr()},
			{Name: scramListener, SASL: []string{"SCRAM-SHA-256"}},
		},
		Users:      map[string]string{secureUser: ownSecret},
		Properties: guarded,
	})
	if err != nil {
		network.Close()
		return err
	}
	k.cluster, k.broker, k.network = kafka, kafka.Brokers[0], network
	network.Aim(k.broker.Listener(byProxy))
	return nil
}

func (k *private) remove() error {
	k.network.Close()
	return k.cluster.Remove()
}

// admin returns a client for what only an operator does, the same at each call.
func (b *bed) admin() *kadm.Client {
	b.t.Helper()
	if b.operator != nil {
		return b.operator
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.addrs...))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	b.operator = kadm.NewClient(client)
	return b.operator
}

// createTopics makes topics, replicated as the cluster's defaults say, and sees to their end.
func (b *bed) createTopics(partitions int32, configs map[string]string, names ...string) {
	b.t.Helper()
	admin := b.admin()
	set := map[string]*string{}
	for name, value := range configs {
		set[name] = &value
	}
	created, err := admin.CreateTopics(b.ctx, partitions, -1, set, names...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		b.t.Fatalf("create topics: %v", err)
	}
	b.t.Cleanup(func() {
		if _, err := admin.DeleteTopics(context.Background(), names...); err != nil {
			b.t.Errorf("delete topics: %v", err)
		}
	})
}

// allow makes a rule for topics, which ends what is allowed to all. The function that it returns takes the rule back.
func (b *bed) allow(user string, operation kadm.ACLOperation, topics ...string) (end func()) {
	b.t.Helper()
	admin := b.admin()
	rule := kadm.NewACLs().Allow("User:" + user).AllowHosts("*").Topics(topics...).Operations(operation).
		ResourcePatternType(kadm.ACLPatternLiteral)
	made, err := admin.CreateACLs(b.ctx, rule)
	for _, m := range made {
		err = errors.Join(err, m.Err)
	}
	if err != nil {
		b.t.Fatalf("make rules: %v", err)
	}
	// The controller answers before the broker obeys.
	b.await(30*time.Second, "the broker knows the rules", func() bool {
		described, err := admin.DescribeACLs(b.ctx, rule)
		b.ok(err)
		n := 0
		for _, d := range described {
			n += len(d.Described)
		}
		return n == len(topics)
	})
	return func() {
		if _, err := admin.DeleteACLs(b.ctx, rule); err != nil {
			b.t.Fatalf("delete rules: %v", err)
		}
	}
}
