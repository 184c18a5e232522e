package kafka

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Partition returns the partition that the key's events go to, -1 while nothing was sent to the topic. More partitions
// are seen when the client sees them, and not while one of the topic does not answer.
func (p *Producer) Partition(topic, key string) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.partition(topic, key)
}

// Renew makes the next Publish begin with a new client: the one that there is may not see a topic's new partitions for
// a while, and what it goes on to send to the old ones, consumers may come to after what follows in the new.
func (p *Producer) Renew() { p.stale.Store(true) }

func (p *Producer) partition(topic, key string) int32 {
	if o := p.open[topic]; o != nil {
		return partitionOf(key, o.count)
	}
	if n, known := p.counts.Load(topic); known {
		return partitionOf(key, n.(*atomic.Int32).Load())
	}
	return -1
}

// java chooses partitions as the Java client does.
var java = kgo.StickyKeyPartitioner(nil).ForTopic("")

// partitionOf returns the partition of a key among so many.
func partitionOf(key string, count int32) int32 {
	if count <= 0 {
		return -1
	}
	return int32(java.Partition(&kgo.Record{Key: []byte(key)}, int(count)))
}

// partitioner chooses as java does, and remembers among how many.
func (p *Producer) partitioner() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		count := p.count(topic)
		return func(r *kgo.Record, n int) int {
			if count.Load() != int32(n) {
				count.Store(int32(n))
			}
			return java.Partition(r, n)
		}
	})
}

func (p *Producer) count(topic string) *atomic.Int32 {
	n, _ := p.counts.LoadOrStore(topic, new(atomic.Int32))
	return n.(*atomic.Int32)
}
