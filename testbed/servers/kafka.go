package servers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KafkaConfig says which cluster to start.
type KafkaConfig struct {
	Brokers    int               // each is a controller, too; 3 is the smallest number that survives the loss of one
	Dir        string            // for data, logs and notes; made if missing; "" = a new one in the test bed's folder
	Properties map[string]string // of server.properties, over the test bed's own, the same for each broker
	Listeners  []Listener        // beside the plain one of Broker.Addr
	Users      map[string]string // passwords by name, both letters and digits, for the listeners with SASL

	// Brief brokers live for a minute or two: Java compiles less for them, so on two busy cores a cluster of three
	// starts in 15 s instead of 35 (half the processor time), and is slower when warm. Not for measuring speed.
	Brief bool
}

// Kafka is a cluster of brokers on this machine.
type Kafka struct {
	Brokers []*Broker // by node id, which starts at 1

	dir   string
	users map[string]string
}

// StartKafka formats and starts a cluster and returns when every broker answers and knows all others. Topics are not
// made by themselves; in a cluster of three, new topics have three replicas, of which two must be in sync. When ctx
// ends before, it leaves nothing running.
func StartKafka(ctx context.Context, config KafkaConfig) (*Kafka, error) {
	k, err := newKafka(ctx, config)
	if err == nil {
		err = k.format(ctx)
	}
	if err == nil {
		err = k.each(func(b *Broker) error { return b.launch() })
	}
	if err == nil {
		err = k.WaitReady(ctx)
	}
	if err != nil {
		if k != nil {
			err = errors.Join(err, k.Remove())
		}
		return nil, fmt.Errorf("start Kafka with %d broker(s): %w", config.Brokers, err)
	}
	return k, nil
}

func newKafka(ctx context.Context, config KafkaConfig) (*Kafka, error) {
	if config.Brokers < 1 {
		return nil, errors.New("a cluster needs at least one broker")
	}
	java, err := java(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := KafkaJars(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts((2 + len(config.Listeners)) * config.Brokers)
	if err != nil {
		return nil, err
	}
	dir, err := serverFolder(config.Dir, fmt.Sprintf("kafka-%d", config.Brokers))
	if err != nil {
		return nil, err
	}
	k := &Kafka{dir: dir, users: config.Users}
	var voters []string
	for i := range config.Brokers {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[config.Brokers+i]))
	}
	heap := "512m"
	if config.Brokers == 1 {
		heap = "768m"
	}
	for i := range config.Brokers {
		b := &Broker{
			Node: i + 1, Addr: fmt.Sprintf("127.0.0.1:%d", ports[i]),
			dir: filepath.Join(dir, fmt.Sprintf("broker-%d", i+1)), java: java, jars: jars, heap: heap,
			brief: config.Brief, listeners: map[string]string{},
		}
		k.Brokers = append(k.Brokers, b)
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			return k, fmt.Errorf("make folder of broker %d: %w", b.Node, err)
		}
		properties := b.properties(config.Brokers, strings.Join(voters, ","), ports[config.Brokers+i])
		for n, l := range config.Listeners {
			if err := b.addListener(l, ports[(2+n)*config.Brokers+i], config.Users, properties); err != nil {
				return k, err
			}
		}
		maps.Copy(properties, config.Properties)
		if err := b.writeProperties(properties); err != nil {
			return k, err
		}
	}
	return k, nil
}

// format prepares the brokers' data folders for one new cluster id.
func (k *Kafka) format(ctx context.Context) error {
	cluster := newClusterID()
	return k.each(func(b *Broker) error {
		jvm := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} // for a short life
		properties := filepath.Join(b.dir, "server.properties")
		args := append([]string{"format", "--cluster-id", cluster, "--config", properties}, scramUsers(k.users)...)
		cmd := b.program(ctx, jvm, "kafka.tools.StorageTool", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("format data of broker %d: %w:\n%s", b.Node, err, out)
		}
		return nil
	})
}

// newClusterID returns a random id as Kafka writes it. It never begins with a dash, which the format command would take
// for an option of its own.
func newClusterID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// WaitReady waits until every broker answers by itself and reports all brokers as alive. A broker that has ended is an
// error at once.
func (k *Kafka) WaitReady(ctx context.Context) error {
	return k.each(func(b *Broker) error {
		var last error
		err := until(ctx, func() bool {
			last = pingBroker(ctx, b.Addr, len(k.Brokers))
			return last == nil || !b.Alive()
		})
		if err != nil {
			return fmt.Errorf("wait for broker %d: %w; the last try: %w", b.Node, err, last)
		}
		if last != nil {
			return fmt.Errorf("wait for broker %d: it ended:\n%s", b.Node, tail(b.dir))
		}
		return nil
	})
}

// PingKafka asks each broker of a cluster for an answer, at most 10 s long, and that it knows all of them as alive.
func PingKafka(ctx context.Context, addrs []string) error {
	var group errgroup.Group
	for _, addr := range addrs {
		group.Go(func() error { return pingBroker(ctx, addr, len(addrs)) })
	}
	return group.Wait()
}

// pingBroker asks the broker itself, by a client without a cache of earlier answers, whether it knows n living brokers.
func pingBroker(ctx context.Context, addr string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	response, err := request.RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil {
		return fmt.Errorf("ask broker at %s: %w", addr, err)
	}
	if len(response.Brokers) < n {
		return fmt.Errorf("ask broker at %s: it knows %d of %d brokers as alive", addr, len(response.Brokers), n)
	}
	return nil
}

// each runs a step for all brokers at the same time.
func (k *Kafka) each(step func(*Broker) error) error {
	var group errgroup.Group
	for _, b := range k.Brokers {
		group.Go(func() error { return step(b) })
	}
	return group.Wait()
}

// Addrs returns host:port of each broker.
func (k *Kafka) Addrs() []string {
	var addrs []string
	for _, b := range k.Brokers {
		addrs = append(addrs, b.Addr)
	}
	return addrs
}

// Remove kills the brokers and deletes the cluster's folder.
func (k *Kafka) Remove() error {
	return errors.Join(k.each((*Broker).Kill), RemoveFolder(k.dir))
}
