package proxy_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste.dev/posthaste/e2e/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo serves lines back and returns where.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					c.Write(append(lines.Bytes(), '\n'))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *proxy.Proxy) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

func start(t *testing.T) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// say sends a line and waits for it to come back.
func say(c net.Conn, r *bufio.Reader, within time.Duration) error {
	c.SetDeadline(time.Now().Add(within))
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return err
	}
	_, err := r.ReadString('\n')
	return err
}

func TestForwards(t *testing.T) {
	p := start(t)
	c, r := dial(t, p)
	if err := say(c, r, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if p.Conns() != 1 {
		t.Errorf("%d connections, want 1", p.Conns())
	}
}

func TestAimsElsewhere(t *testing.T) {
	p, err := proxy.New("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	c, r := dial(t, p)
	if err := say(c, r, 5*time.Second); err == nil {
		t.Error("a line came back through a proxy that leads nowhere")
	}
	p.Aim(echo(t))
	c, r = dial(t, p)
	if err := say(c, r, 5*time.Second); err != nil {
		t.Error(err)
	}
}

func TestDelaysBothWays(t *testing.T) {
	p := start(t)
	c, r := dial(t, p)
	p.Delay(50 * time.Millisecond)
	began := time.Now()
	if err := say(c, r, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("a round trip took %s, want at least twice the delay of 50 ms", took)
	}
}

func TestBlackholeHoldsBackAndLetsGo(t *testing.T) {
	p := start(t)
	c, r := dial(t, p)
	if err := say(c, r, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Blackhole(true)
	if err := say(c, r, 100*time.Millisecond); err == nil {
		t.Error("a line came through")
	}
	p.Blackhole(false)
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := r.ReadString('\n'); err != nil {
		t.Errorf("what was held back does not arrive: %v", err)
	}
}

// Whichever side is the one that has closed its half, the other reads the end, and can still be heard.
func TestHalfCloses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p, err := proxy.New(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	for _, from := range []proxy.Side{proxy.Client, proxy.Target} {
		client, _ := dial(t, p)
		target, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		deaf, ended := client, target // who is not heard any more, and who reads the end
		if from == proxy.Target {
			deaf, ended = target, client
		}
		if err := hears(client, target); err != nil {
			t.Fatal(err)
		}
		p.HalfClose(from)
		ended.SetDeadline(time.Now().Add(5 * time.Second))
		if n, err := ended.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("side %d closed its half: the other one reads %d bytes, %v, want the end", from, n, err)
		}
		if _, err := deaf.Write([]byte("vanishes")); err != nil {
			t.Errorf("side %d closed its half, and learns of it: %v", from, err)
		}
		for range 2 { // the first might come through before the proxy notices anything
			if err := hears(ended, deaf); err != nil {
				t.Errorf("side %d closed its half, and hears nothing: %v", from, err)
			}
		}
	}
}

// hears sends a word from one to the other.
func hears(from, to net.Conn) error {
	if _, err := from.Write([]byte("word")); err != nil {
		return err
	}
	to.SetDeadline(time.Now().Add(5 * time.Second))
	_, err := io.ReadFull(to, make([]byte, 4))
	return err
}

// A side that closes its half itself is heard to have, and hears on.
func TestHalfCloseIsPassedOn(t *testing.T) {
	p := start(t)
	c, r := dial(t, p)
	if _, err := c.Write([]byte("last words\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if line, err := r.ReadString('\n'); line != "last words\n" {
		t.Errorf("it reads %q, %v", line, err)
	}
	if _, err := r.ReadString('\n'); err != io.EOF { // the echo ends when it has read the end
		t.Errorf("then %v, want the end", err)
	}
}

func TestCutLosesWhatABlackholeHas(t *testing.T) {
	p := start(t)
	c, r := dial(t, p)
	if err := say(c, r, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Blackhole(true)
	if _, err := c.Write([]byte("lost\n")); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	p.Blackhole(false)
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if line, err := r.ReadString('\n'); err == nil {
		t.Errorf("%q came back by a connection that was cut", line)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	p := start(t)
	c, r := dial(t, p)
	if err := say(c, r, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Blackhole(true)
	p.Close()
	if err := say(c, r, 5*time.Second); err == nil {
		t.Error("a line came back through a closed proxy")
	}
}
