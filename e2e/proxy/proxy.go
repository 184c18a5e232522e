// Package proxy is a TCP proxy that can be slow, swallow everything, close half of a connection or lead elsewhere, for
// faults of a network.
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
	links  map[*link]struct{}
	done   bool
	wg     sync.WaitGroup
}

// Side is one of the two that a proxy stands between.
type Side int

// Client is who dials the proxy, Target whom the proxy dials.
const (
	Client Side = iota
	Target
)

// link is a connection by way of the proxy: its two ends, and which of them has no more to say.
type link struct {
	ends  [2]*net.TCPConn // by Side
	ended [2]bool
}

func (l *link) close() {
	for _, end := range l.ends {
		end.Close()
	}
}

// New starts a proxy to target, host:port. One without a target refuses to forward until Aim gives it one.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, links: map[*link]struct{}{}}
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

// HalfClose ends one direction of the connections that are open, as if the side that speaks by it had closed its half:
// the other side reads the end, and what the first still says vanishes. The other direction stays, as long as both
// sides want it. New connections are whole.
func (p *Proxy) HalfClose(from Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.ended[from] = true
		_ = l.ends[1-from].CloseWrite() // fails where the connection has ended
	}
}

// Cut ends all connections. New ones are taken. While it is a blackhole, what was sent is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Conns returns how many connections are open to the proxy.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close ends all connections and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.done = true
	p.listener.Close()
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.Blackhole(false)
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
	l := &link{ends: [2]*net.TCPConn{in.(*net.TCPConn), out.(*net.TCPConn)}}
	defer l.close()
	if !p.hold(l) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { p.pipe(l, Target) })
	p.pipe(l, Client)
	back.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// hold keeps the link for Close; false when that has been called already.
func (p *Proxy) hold(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.links[l] = struct{}{}
	}
	return !p.done
}

// pipe copies what one side says until it ends, which the other side is told. What breaks, breaks for both.
func (p *Proxy) pipe(l *link, side Side) {
	from, to := l.ends[side], l.ends[1-side]
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.pass()
			if _, err := to.Write(buf[:n]); err != nil && !p.hasEnded(l, side) {
				l.close()
				return
			}
		}
		if err == io.EOF {
			p.pass()
			err = to.CloseWrite()
			if err == nil || p.hasEnded(l, side) {
				return
			}
		}
		if err != nil {
			l.close()
			return
		}
	}
}

// hasEnded tells whether a side has no more to say by the test's will.
func (p *Proxy) hasEnded(l *link, side Side) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.ended[side]
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
