package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate keeps a client from sending records before all of a chunk stand in its queues, one a partition. When a batch
// fails, the client fails all that stands behind it in the queue, but what comes into the queue afterwards it sends,
// past the failed batch. It does begin to send early, in two ways (kgo 1.22.3): records of a topic that it does not
// know yet are kept aside and moved to their queues one by one, at a time of its own; and when a pause after a failed
// request ends, between two flushes too, it sends what is there (sink.drain, after maybeBackoff).
//
// Everything but produce requests passes: the client must be able to learn topics meanwhile.
type gate struct {
	mu      sync.Mutex
	cluster *identity
	shut    chan struct{} // closed when sending may go on; nil while it may
	waiting int           // requests
	spent   bool          // nothing may be sent any more

	expected atomic.Int64  // records that are still to come into their queues
	whole    chan struct{} // closed when there are none left

	throttled atomic.Int64 // until when a broker wants the client to wait, nanoseconds of Unix time
}

var errGateSpent = errors.New("this client has been given up")

// close lets no produce request begin. One that has begun goes on: it holds none of what is handed over from now on.
// The channel that it returns is closed when so many records have come into their queues.
func (g *gate) close(records int) (whole <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.whole = make(chan struct{}), make(chan struct{})
	g.expected.Store(int64(records))
	if records == 0 {
		close(g.whole)
	}
	return g.whole
}

// OnProduceRecordPartitioned hears from the client of each record that has come into its queue.
func (g *gate) OnProduceRecordPartitioned(*kgo.Record, int32) {
	if g.expected.Add(-1) == 0 {
		close(g.whole) // not replaced before: only Publish closes the gate, and it waits for this
	}
}

// open lets sending go on.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

// giveUp fails every produce request that waits, and all to come.
func (g *gate) giveUp() {
	g.mu.Lock()
	g.spent = true
	g.mu.Unlock()
	g.open()
}

// pass waits until sending may go on.
func (g *gate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut != nil {
		shut := g.shut
		g.waiting++
		g.mu.Unlock()
		<-shut
		g.mu.Lock()
		g.waiting--
	}
	if g.spent {
		return errGateSpent
	}
	return nil
}

// isSpent tells whether the client was given up.
func (g *gate) isSpent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spent
}

// OnBrokerThrottle hears from the client of a broker that makes it wait, as it does with who goes beyond a quota.
func (g *gate) OnBrokerThrottle(_ kgo.BrokerMetadata, wait time.Duration, _ bool) {
	if until := time.Now().Add(wait).UnixNano(); until > g.throttled.Load() {
		g.throttled.Store(until)
	}
}

func (g *gate) throttledUntil() time.Time { return time.Unix(0, g.throttled.Load()) }

// waits tells how many produce requests wait.
func (g *gate) waits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

const dialTimeout = 10 * time.Second // the client's own default

// dialer connects through the gate, with TLS where it is configured.
func (g *gate) dialer(config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	dial := plain.DialContext
	if config != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &gated{Conn: conn, gate: g}, nil
	}
}

// gated is a connection whose produce requests pass the gate. The client writes each request by one call, and one call
// at a time.
type gated struct {
	net.Conn
	gate    *gate
	cluster string // where it leads to, as far as anybody wanted to know
}

func (c *gated) Write(b []byte) (int, error) {
	if isProduce(b) {
		if err := c.gate.pass(); err != nil {
			return 0, err
		}
		if own := c.gate.cluster.bound(); own != c.cluster {
			if err := c.gate.cluster.check(c.Conn, own); err != nil {
				return 0, err
			}
			c.cluster = own
		}
	}
	return c.Conn.Write(b)
}

// isProduce reads the head of a request: four bytes of length, two of the kind.
func isProduce(request []byte) bool {
	return len(request) >= 6 && int16(binary.BigEndian.Uint16(request[4:])) == int16(kmsg.Produce)
}
