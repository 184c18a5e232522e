package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// gate keeps a client from writing to the brokers while records are handed over to it.
//
// The client sends on its own account when a pause after a failed request ends, even between two flushes (kgo 1.22.3:
// sink.drain waits in maybeBackoff and asks nobody afterwards). The first records of a chunk would leave while the
// rest is still being handed over, and if these fail before it is, the later records of their keys are not failed with
// them: they would be sent, and the failed ones after them.
type gate struct {
	mu      sync.Mutex
	shut    chan struct{} // closed when writing may go on; nil while it may
	waiting int           // writes
	spent   bool          // nothing may be written any more
}

var errGateSpent = errors.New("this client has been given up")

// close lets no write begin. One that has begun goes on: it holds none of what is handed over from now on.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

// open lets writes go on.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

// giveUp fails every write that waits, and all to come.
func (g *gate) giveUp() {
	g.mu.Lock()
	g.spent = true
	g.mu.Unlock()
	g.open()
}

// pass waits until writing may go on.
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

// waits tells how many writes wait.
func (g *gate) waits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

const dialTimeout = 10 * time.Second // the client's own default

// dialer connects through the gate, with TLS where it is configured.
func (g *gate) dialer(config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		plain, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := gated{plain, g}
		if config == nil {
			return conn, nil
		}
		config := config.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, config)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, err
		}
		return secure, nil
	}
}

// gated is a connection whose writes pass the gate.
type gated struct {
	net.Conn
	gate *gate
}

func (c gated) Write(b []byte) (int, error) {
	if err := c.gate.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
