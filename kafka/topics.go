package kafka

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topic is what the producer must know of one before it sends to it.
type topic struct {
	maxBytes int32 // the largest batch that it takes
	minISR   int32 // in-sync replicas that it wants at least, 0 where that is not known
	problem  error // why nothing can be sent to it
	askedAt  time.Time
}

// defaultMaxBytes is Kafka's own default of max.message.bytes, used where the limit may not be read.
const defaultMaxBytes = 1048588

// maxTopicName is Kafka's own limit. The empty name and those beyond what the protocol can carry break the question
// for all others, so they are never asked for.
const maxTopicName = 249

// topicAge is how long a topic's limit is believed.
const topicAge = 5 * time.Minute

// limitAge is how long it is believed that a topic does not take a record that is too large for it: somebody may have
// raised the limit, to send that very record.
const limitAge = time.Second

// limitNow asks for a topic anew.
func (p *Producer) limitNow(ctx context.Context, name string) (*topic, error) {
	found, err := ask(ctx, p.client().Client, []string{name})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.raised = p.raised || found[name].maxBytes > p.topics[name].maxBytes
	p.topics[name] = found[name]
	return found[name], nil
}

// learn asks for the topics that are not known, or were unusable. It waits for an answer until the context ends.
func (p *Producer) learn(ctx context.Context, names map[string]bool) error {
	// While partitions don't answer the brokers may not either, and what is known of a topic serves well enough.
	troubled := p.openNow()
	var unknown []string
	for name := range names {
		if name == "" || len(name) > maxTopicName {
			p.mu.Lock()
			p.topics[name] = &topic{problem: classify(kerr.InvalidTopicException, name)}
			p.mu.Unlock()
			continue
		}
		t := p.topics[name]
		if t == nil || t.problem != nil || time.Since(t.askedAt) > topicAge && !troubled {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := ask(ctx, p.client().Client, unknown)
	if err != nil {
		return err
	}
	for name, t := range found {
		if old := p.topics[name]; t.problem == nil && (old == nil || old.problem != nil) {
			p.unknown = append(p.unknown, name)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.topics, found)
	return nil
}

// ask is one question for the topics' existence and limits.
func ask(ctx context.Context, client *kgo.Client, names []string) (map[string]*topic, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	admin := kadm.NewClient(client)
	problems, err := describe(ctx, admin, names)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*topic, len(names))
	for _, name := range names {
		t := &topic{maxBytes: defaultMaxBytes, askedAt: time.Now()}
		if err := problems[name]; err != nil && !kerr.IsRetriable(err) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.problem = classify(err, name)
		}
		found[name] = t
	}
	for name, c := range settings(ctx, admin, names) {
		if n, err := strconv.Atoi(c["max.message.bytes"]); err == nil {
			found[name].maxBytes = int32(n)
		}
		if n, err := strconv.Atoi(c["min.insync.replicas"]); err == nil {
			found[name].minISR = int32(n)
		}
	}
	return found, nil
}

// describe tells what the cluster says against each topic. The client library has one answer for all when one topic is
// forbidden, and the others must not suffer for it: then each is asked for by itself.
func describe(ctx context.Context, admin *kadm.Client, names []string) (map[string]error, error) {
	problems := make(map[string]error, len(names))
	details, err := admin.ListTopics(ctx, names...)
	switch {
	case err == nil:
		for name, d := range details {
			problems[name] = d.Err
		}
	case !forbidden(err):
		return nil, err
	case len(names) == 1:
		problems[names[0]] = err
	default:
		for _, name := range names {
			alone, err := describe(ctx, admin, []string{name})
			if err != nil {
				return nil, err
			}
			maps.Copy(problems, alone)
		}
	}
	return problems, nil
}

// settings returns those of each topic that tells them. They may be secret to this client; then the broker's refusal
// tells the limit.
func settings(ctx context.Context, admin *kadm.Client, names []string) map[string]map[string]string {
	found := make(map[string]map[string]string, len(names))
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if forbidden(err) && len(names) > 1 {
		for _, name := range names {
			maps.Copy(found, settings(ctx, admin, []string{name}))
		}
		return found
	}
	for _, c := range configs {
		if c.Err != nil {
			continue
		}
		found[c.Name] = make(map[string]string)
		for _, entry := range c.Configs {
			found[c.Name][entry.Key] = entry.MaybeValue()
		}
	}
	return found
}

func forbidden(err error) bool {
	_, is := errors.AsType[*kadm.AuthError](err)
	return is
}

func (p *Producer) batchBytes(name string) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return batchLimit(p.topics[name])
}

// batchLimit bounds a batch by its topic's limit, within what the client accepts.
func batchLimit(t *topic) int32 {
	limit := int32(defaultMaxBytes)
	if t != nil {
		limit = t.maxBytes
	}
	return min(max(limit, 512), 1<<30)
}
