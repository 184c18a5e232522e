// Package proxy is a TCP proxy that can be slow, swallow everything or lead elsewhere, for faults of a network.
package proxy

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy forwards what comes to Addr. All methods may be called concurrently.
type Proxy struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	delay  time.Duration
	hole   chan struct{} // not nil while nothing passes; closed when something does again
	conns  map[net.Conn]struct{}
	done   bool
	wg     sync.WaitGroup
}

// New starts a proxy to target, host:port. One without a target refuses to forward until Aim gives it one.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Aim leads new connections to another target; those that are open stay where they lead.
func (p *Proxy) Aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Delay makes every piece of data wait that long, in both directions, from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Blackhole lets nothing through, in either direction, on old and new connections; connections stay open. What is
// sent meanwhile waits and arrives when it is switched off.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.hole == nil:
		p.hole = make(chan struct{})
	case !on && p.hole != nil:
		close(p.hole)
		p.hole = nil
	}
}

// Cut ends all connections. New ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Conns returns how many connections are open to the proxy.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

// Close ends all connections and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.Blackhole(false)
	p.mu.Lock()
	p.done = true
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

func (p *Proxy) serve(in net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		in.Close()
		return
	}
	if !p.hold(in, out) {
		return
	}
	p.wg.Go(func() { p.pipe(in, out) })
	p.pipe(out, in)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, in)
	delete(p.conns, out)
}

// hold keeps the connections for Close; false when that has been called already.
func (p *Proxy) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.done {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.done
}

// pipe copies from one connection to the other until either ends, then ends both.
func (p *Proxy) pipe(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.pass()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err == io.EOF {
				p.pass()
			}
			return
		}
	}
}

// pass waits as long as the proxy is told to be slow or shut.
func (p *Proxy) pass() {
	p.mu.Lock()
	delay, hole := p.delay, p.hole
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	if hole != nil {
		<-hole
	}
}
