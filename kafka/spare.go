package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// spareTimeout bounds making a spare, and loading topics into it.
const spareTimeout = 30 * time.Second

// provideSpare sees to a spare client that has its producer id and knows the topics that the current one knows. It is
// made beside the work, when all is well: in trouble, brokers that don't answer are asked, too, and it takes its time.
func (p *Producer) provideSpare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	spare := p.spare
	if p.closed || p.sparing || spare != nil && len(p.unknown) == 0 {
		return
	}
	names := p.unknown
	if spare == nil {
		names = p.usable()
	}
	p.unknown = nil
	p.spare, p.sparing = nil, true
	spoilt := p.spoilt
	p.work.Go(func() { p.makeSpare(spare, names, spoilt) })
}

// usable returns the names of the topics that can be sent to.
func (p *Producer) usable() []string {
	var names []string
	for name, t := range p.topics {
		if t.problem == nil {
			names = append(names, name)
		}
	}
	return names
}

// makeSpare makes a spare, or loads topics into the one that there is. Where it fails, there is none until the next
// try.
func (p *Producer) makeSpare(spare *client, names []string, spoilt int) {
	ctx, cancel := context.WithTimeout(p.ctx, spareTimeout)
	defer cancel()
	var err error
	if spare == nil {
		if spare, err = p.newClient(); err == nil {
			_, _, err = spare.ProducerID(ctx)
		}
	}
	if err == nil {
		err = load(ctx, spare.Client, names)
	}
	p.mu.Lock()
	p.sparing = false
	if err == nil && !p.closed && p.spoilt == spoilt {
		p.spare, spare = spare, nil
	}
	p.mu.Unlock()
	if spare != nil {
		spare.Close()
	}
}

// load makes a client know topics before it has something for them. It learns a topic when it is given a record for it;
// the record has a context that has ended, so it is never sent, and when load returns without an error it is gone.
func load(ctx context.Context, client *kgo.Client, names []string) error {
	ended, end := context.WithCancel(context.Background())
	end()
	for _, name := range names {
		if loaded(client, name) {
			continue
		}
		client.Produce(ended, &kgo.Record{Topic: name, Key: []byte{}}, nil)
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for _, name := range names {
		for !loaded(client, name) {
			select {
			case <-again.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	client.UnsafeAbortBufferedRecords() // safe, since nothing was sent
	for {
		if done, err := flushOnce(ctx, client); done || err != nil {
			return err
		}
	}
}

func loaded(client *kgo.Client, topic string) bool {
	leader, _, err := client.PartitionLeader(topic, 0)
	return leader >= 0 || err != nil
}
