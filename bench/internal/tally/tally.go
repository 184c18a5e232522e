// Package tally counts the statements that a client sends to PostgreSQL, as a proxy that reads along. The server could
// count them only with an extension that needs a restart.
package tally

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
)

// Proxy forwards what comes to DSN, without TLS. All methods may be called concurrently.
type Proxy struct {
	listener   net.Listener
	target     *url.URL
	statements atomic.Int64

	mu    sync.Mutex
	done  bool
	conns []net.Conn
	wg    sync.WaitGroup
}

// Start starts a proxy in front of the server of a URL.
func Start(dsn string) (*Proxy, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return nil, errors.New("count statements: the database's address is no URL with a host")
	}
	if u.Port() == "" {
		u.Host += ":5432"
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("count statements: %w", err)
	}
	p := &Proxy{listener: l, target: u}
	p.wg.Go(p.accept)
	return p, nil
}

// DSN is the URL of the database by way of the proxy.
func (p *Proxy) DSN() string {
	u := *p.target
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Statements is how many have been sent so far, each execution of a prepared one counted.
func (p *Proxy) Statements() int64 { return p.statements.Load() }

// Close ends all connections and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.done = true
	p.listener.Close()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target.Host)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		done := p.done
		p.mu.Unlock()
		if done { // Close has not seen them
			client.Close()
			server.Close()
			return
		}
		p.wg.Go(func() { p.forward(client, server) })
		p.wg.Go(func() {
			_, _ = io.Copy(client, server) // its end is the connection's, which both sides see
			client.Close()
		})
	}
}

// Codes that stand where a first message has its protocol version.
const (
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

// forward passes the client's messages on, and counts.
func (p *Proxy) forward(client, server net.Conn) {
	defer server.Close()
	in := bufio.NewReaderSize(client, 64<<10)
	for started := false; !started; {
		message, err := first(in)
		if err != nil {
			return
		}
		switch binary.BigEndian.Uint32(message[4:]) {
		case sslRequest, gssEncRequest: // no: what is encrypted can't be counted
			_, err = client.Write([]byte{'N'})
		default:
			_, err = server.Write(message)
			started = true
		}
		if err != nil {
			return
		}
	}
	for {
		head, err := in.Peek(5)
		if err != nil {
			return
		}
		if head[0] == 'Q' || head[0] == 'E' { // a simple query, or the execution of a prepared one
			p.statements.Add(1)
		}
		if _, err := io.CopyN(server, in, 1+int64(binary.BigEndian.Uint32(head[1:]))); err != nil {
			return
		}
	}
}

// first reads a message without a type, as those are that begin a connection.
func first(in io.Reader) ([]byte, error) {
	message := make([]byte, 8)
	if _, err := io.ReadFull(in, message); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(message)
	if length < 8 || length > 10_000 {
		return nil, fmt.Errorf("read first message: it can't have %d bytes", length)
	}
	message = append(message, make([]byte, length-8)...)
	_, err := io.ReadFull(in, message[8:])
	return message, err
}
