package faults_test

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cutter listens for the brokers and can close a connection in place of the answer to a produce request: the broker has
// appended and the client can't know it.
type cutter struct {
	mu    sync.Mutex
	nodes int32 // brokers that listen
	due   map[int32]bool
}

func newCutter() *cutter { return &cutter{due: map[int32]bool{}} }

// next makes the next answer of a broker to a produce request get lost.
func (c *cutter) next(node int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[node] = true
}

func (c *cutter) take(node int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.due[node]
	delete(c.due, node)
	return due
}

// listen is called once a broker, in the order of their ids.
func (c *cutter) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.nodes
	c.nodes++
	return listener{l, c, node}, nil
}

type listener struct {
	net.Listener
	cutter *cutter
	node   int32
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, listener: l}, nil
}

// conn follows the requests that come in, since the client has a connection of its own for produce requests.
type conn struct {
	net.Conn
	listener listener
	head     []byte // of the request that comes in: 4 bytes of length and 2 of key, as far as they have come
	left     int    // what is still to come behind the head
	produces atomic.Bool
}

const headSize = 6

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if c.left > 0 {
			skip := min(c.left, len(b))
			c.left -= skip
			b = b[skip:]
			continue
		}
		take := min(headSize-len(c.head), len(b))
		c.head = append(c.head, b[:take]...)
		b = b[take:]
		if len(c.head) == headSize {
			c.left = int(binary.BigEndian.Uint32(c.head)) - 2
			if binary.BigEndian.Uint16(c.head[4:]) == uint16(kmsg.Produce) {
				c.produces.Store(true)
			}
			c.head = c.head[:0]
		}
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if c.produces.Load() && c.listener.cutter.take(c.listener.node) {
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}
