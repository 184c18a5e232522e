package proxy_test

import (
	"bufio"
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
