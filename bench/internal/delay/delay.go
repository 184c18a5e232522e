// Package delay puts a cluster of Kafka brokers behind a network that is longer than the real one: a proxy for each
// broker, which holds back every request and every answer, and tells clients the proxies' addresses for the brokers'
// own.
//
// Nothing is slowed but the way: what is sent together arrives together, however much it is.
package delay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is a set of proxies. All methods may be called concurrently.
type Cluster struct {
	delay time.Duration
	addrs map[string]string // the proxies' by the brokers'
	list  []string
	lines []net.Listener

	mu    sync.Mutex
	done  bool
	conns []net.Conn
	wg    sync.WaitGroup
}

// Start starts a proxy for each of the brokers, host:port, which must be all of the cluster's, as it advertises them.
// Added is what a round trip takes longer, half of it on each way.
func Start(brokers []string, added time.Duration) (*Cluster, error) {
	c := &Cluster{delay: added / 2, addrs: map[string]string{}}
	for _, broker := range brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("start proxy: %w", err)
		}
		c.lines = append(c.lines, l)
		c.list = append(c.list, l.Addr().String())
		c.addrs[broker] = l.Addr().String()
	}
	for i, l := range c.lines {
		c.wg.Go(func() { c.accept(l, brokers[i]) })
	}
	return c, nil
}

// Addrs are the proxies' addresses, in the order of the brokers.
func (c *Cluster) Addrs() []string { return c.list }

// Close ends all connections and waits for the proxies' goroutines.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.done = true
	for _, l := range c.lines {
		l.Close()
	}
	for _, conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *Cluster) accept(l net.Listener, broker string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", broker)
		if err != nil {
			client.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, client, server)
		done := c.done
		c.mu.Unlock()
		if done { // Close has not seen them
			client.Close()
			server.Close()
			return
		}
		asked := &questions{open: map[int32]question{}}
		c.wg.Go(func() { c.pipe(client, server, asked.note) })
		c.wg.Go(func() {
			c.pipe(server, client, func(frame []byte) ([]byte, error) { return c.answer(asked, frame) })
		})
	}
}

// held is a frame on its way.
type held struct {
	frame []byte
	due   time.Time
}

// pipe passes frames on, each when its time has come, until either connection ends; then it ends both.
func (c *Cluster) pipe(from, to net.Conn, change func(frame []byte) ([]byte, error)) {
	defer from.Close()
	way := make(chan held, 1024)
	c.wg.Go(func() {
		defer to.Close()
		for h := range way {
			time.Sleep(time.Until(h.due))
			if _, err := to.Write(h.frame); err != nil {
				from.Close() // ends the reading, which closes the way
			}
		}
	})
	defer close(way)
	for {
		frame, err := read(from)
		if err == nil {
			frame, err = change(frame)
		}
		if err != nil {
			return
		}
		way <- held{frame, time.Now().Add(c.delay)}
	}
}

// read reads a frame with the length in front of it.
func read(from io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, err
	}
	const most = 200 << 20 // far above what a broker takes
	length := binary.BigEndian.Uint32(frame)
	if length < 4 || length > most {
		return nil, fmt.Errorf("read frame: it can't have %d bytes", length)
	}
	frame = append(frame, make([]byte, length)...)
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}

// question is what a request asks, as far as its answer can hold an address.
type question struct{ key, version int16 }

// questions are those of a connection that are not answered yet, by correlation id.
type questions struct {
	mu   sync.Mutex
	open map[int32]question
}

func (q *questions) note(frame []byte) ([]byte, error) {
	if len(frame) < 12 {
		return nil, errors.New("read request: it is too short")
	}
	asked := question{int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))}
	switch kmsg.Key(asked.key) {
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.Produce:
		q.mu.Lock()
		defer q.mu.Unlock()
		q.open[int32(binary.BigEndian.Uint32(frame[8:]))] = asked
	}
	return frame, nil
}

func (q *questions) take(correlation int32) (question, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked, ok := q.open[correlation]
	delete(q.open, correlation)
	return asked, ok
}

// answer puts the proxies' addresses into an answer that holds the brokers'.
func (c *Cluster) answer(asked *questions, frame []byte) ([]byte, error) {
	if len(frame) < 8 {
		return nil, errors.New("read answer: it is too short")
	}
	q, ok := asked.take(int32(binary.BigEndian.Uint32(frame[4:])))
	if !ok {
		return frame, nil
	}
	response := kmsg.ResponseForKey(q.key)
	response.SetVersion(q.version)
	in := kbin.Reader{Src: frame[8:]}
	if response.IsFlexible() {
		kmsg.ReadTags(&in)
	}
	if err := in.Complete(); err != nil {
		return nil, err
	}
	if err := response.ReadFrom(in.Src); err != nil {
		return nil, err
	}
	c.readdress(response)
	out := append(make([]byte, 4), frame[4:8]...)
	if response.IsFlexible() {
		out = append(out, 0)
	}
	out = response.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

func (c *Cluster) readdress(response kmsg.Response) {
	switch r := response.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			c.replace(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		c.replace(&r.Host, &r.Port)
		for i := range r.Coordinators {
			c.replace(&r.Coordinators[i].Host, &r.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			c.replace(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.ProduceResponse: // where a partition has moved to
		for i := range r.Brokers {
			c.replace(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	}
}

func (c *Cluster) replace(host *string, port *int32) {
	addr, ok := c.addrs[net.JoinHostPort(*host, strconv.Itoa(int(*port)))]
	if !ok {
		return
	}
	proxy, number, err := net.SplitHostPort(addr)
	if err != nil {
		return // it was made by the listener
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return
	}
	*host, *port = proxy, int32(n)
}
