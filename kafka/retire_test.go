package kafka_test

import (
	"testing"

	"posthaste.dev/posthaste/relay"
)

// Partition tells what the client does: as the Java client's murmur2 chooses; hashes with the top bit set are those
// that others get wrong.
func TestPartition(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	p := newProducer(t, b)
	for _, c := range []struct {
		key        string
		partitions int32
		want       int32
	}{
		{"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26},
		{"f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5},
		{"TT0124", 15, 10},
		{"ключ-1", 12, 9},
		{"", 12, 9},
	} {
		topic := b.topic(c.partitions)
		if got := p.Partition(topic, c.key); got != -1 {
			t.Errorf("key %q is on partition %d of a topic that is not known yet", c.key, got)
		}
		if got := classes(p.Publish(t.Context(), []*relay.Event{event(topic, c.key, `{}`)})); got != "ok" {
			t.Fatal(got)
		}
		if got := p.Partition(topic, c.key); got != c.want {
			t.Errorf("key %q of %d partitions: %d, want %d", c.key, c.partitions, got, c.want)
		}
		if got := b.records(topic)[0].Partition; got != c.want {
			t.Errorf("key %q of %d partitions lands on %d, want %d", c.key, c.partitions, got, c.want)
		}
	}
}
