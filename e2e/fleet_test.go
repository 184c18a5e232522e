package e2e_test

import (
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/e2e/process"
	"posthaste.dev/posthaste/e2e/proxy"
)

// fleet is a number of relays to which harm is done. One goroutine uses it.
type fleet struct {
	b       *bed
	spec    process.Spec
	slow    bool // every relay reaches its database by a proxy
	members []*member
	pending sync.WaitGroup // relays that are to stop
	forgive int            // strikes that may lead to duplicates
	undo    []undoing      // what lasts and is no relay's own
}

// undoing is what ends a strike, and when.
type undoing struct {
	at time.Time
	do func()
}

type member struct {
	*process.Process
	thaw  time.Time // not zero while frozen
	proxy *proxy.Proxy
	brisk time.Time // not zero while its proxy is slow: when that ends
}

func (f *fleet) start() *member {
	f.b.t.Helper()
	m, spec := &member{}, f.spec
	if f.slow {
		m.proxy, spec = f.b.proxied(spec)
	}
	m.Process = f.b.start(spec)
	return m
}

// proxied puts a proxy between a relay and its database.
func (b *bed) proxied(spec process.Spec) (*proxy.Proxy, process.Spec) {
	b.t.Helper()
	u, err := url.Parse(b.dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := proxy.New(u.Host)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(p.Close)
	u.Host = p.Addr()
	spec.Env = append(spec.Env[:len(spec.Env):len(spec.Env)], "DATABASE_URL="+u.String())
	return p, spec
}

// run does the strikes at their time and undoes at its end what lasts.
func (f *fleet) run(strikes []strike) {
	began := time.Now()
	for _, s := range strikes {
		f.until(began.Add(s.at))
		f.strike(s)
	}
	for _, m := range f.members {
		for !m.thaw.IsZero() || !m.brisk.IsZero() {
			f.until(later(m.thaw, m.brisk))
		}
	}
	for len(f.undo) > 0 {
		f.until(f.undo[0].at)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// until waits for a moment and meanwhile ends what is to end, and looks whether every relay still runs.
func (f *fleet) until(moment time.Time) {
	for {
		f.undo = slices.DeleteFunc(f.undo, func(u undoing) bool {
			due := time.Now().After(u.at)
			if due {
				u.do()
			}
			return due
		})
		for _, m := range f.members {
			if !m.thaw.IsZero() && time.Now().After(m.thaw) {
				m.Thaw()
				m.thaw = time.Time{}
			}
			if !m.brisk.IsZero() && time.Now().After(m.brisk) {
				m.proxy.Delay(0)
				m.brisk = time.Time{}
			}
			select {
			case <-m.Exited():
				f.b.t.Fatalf("a relay has exited by itself:\n%s", m.LogTail(25))
			default:
			}
		}
		left := time.Until(moment)
		if left <= 0 {
			return
		}
		f.b.letPass(min(left, 20*time.Millisecond))
	}
}

func (f *fleet) strike(s strike) {
	m := f.target(s.target)
	if m == nil && s.harm != stall {
		return // all frozen
	}
	switch s.harm {
	case kill:
		f.kill(m)
	case terminate:
		f.terminate(m)
	case freeze:
		m.Freeze()
		m.thaw = time.Now().Add(s.length)
		f.forgive++
	case lag:
		m.proxy.Delay(lagged)
		m.brisk = time.Now().Add(s.length)
		f.forgive++
	case stall, stallKill, stallTerminate:
		f.stall(s, m)
	case cut:
		f.b.exec(`select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and application_name like 'posthaste%' order by random() limit 1`)
		f.forgive++
	case pauseTopic:
		topic := f.b.topics[s.target%len(f.b.topics)]
		f.b.exec(`insert into posthaste.pause (outbox, topic, reason, paused_by)
			values (1, $1, 'chaos', 'chaos')`, topic)
		f.after(s.length, func() { f.b.exec(`delete from posthaste.pause where topic = $1`, topic) })
	case refuse:
		topic := f.b.topics[s.target%len(f.b.topics)]
		f.b.limit(topic, 100)
		f.after(s.length, func() { f.b.limit(topic, 1<<20) })
	}
}

// after undoes a strike when its time is over.
func (f *fleet) after(length time.Duration, do func()) {
	f.undo = append(f.undo, undoing{time.Now().Add(length), do})
}

// limit sets the largest batch that a topic takes.
func (b *bed) limit(topic string, size int) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.addrs...))
	b.ok(err)
	defer client.Close()
	value := strconv.Itoa(size)
	set, err := kadm.NewClient(client).AlterTopicConfigs(b.ctx,
		[]kadm.AlterConfig{{Name: "max.message.bytes", Value: &value}}, topic)
	b.ok(err)
	b.ok(set[0].Err)
}

// letOut has everything that is parked tried again, until nothing is.
func (b *bed) letOut(patience time.Duration) {
	b.t.Helper()
	b.await(patience, "nothing is parked", func() bool {
		b.exec(`update posthaste.parked set request = 'retry' where request is null`)
		var parked, open int
		b.ok(b.db.QueryRow(b.ctx, `select (select count(*) from posthaste.parked),
			(select count(*) from `+table+` where published_at is null)`).Scan(&parked, &open))
		return parked == 0 && open == 0
	})
}

// stall stops the brokers and does what goes with it when it is half over.
func (f *fleet) stall(s strike, m *member) {
	over := make(chan error)
	go func() { over <- process.Stall(s.length, f.b.kafka.pids...) }()
	if s.harm != stall {
		f.b.letPass(s.length / 2)
	}
	switch s.harm {
	case stallKill:
		f.kill(m)
	case stallTerminate:
		f.terminate(m)
	}
	if err := <-over; err != nil {
		f.b.t.Fatal(err)
	}
}

func (f *fleet) kill(m *member) {
	m.Kill()
	f.forgive++
	f.replace(m)
}

func (f *fleet) terminate(m *member) {
	f.pending.Go(func() { f.b.stop(m.Process) })
	f.replace(m)
}

// replace starts a relay in another's place. A database connection that is slow ends with its relay.
func (f *fleet) replace(m *member) {
	for i := range f.members {
		if f.members[i] == m {
			f.members[i] = f.start()
		}
	}
}

func (f *fleet) target(n int) *member {
	var awake []*member
	for _, m := range f.members {
		if m.thaw.IsZero() {
			awake = append(awake, m)
		}
	}
	if len(awake) == 0 {
		return nil
	}
	return awake[n%len(awake)]
}

// logged counts the lines that the relays which are left have logged.
func (f *fleet) logged() int {
	n := 0
	for _, m := range f.members {
		n += m.LogLines()
	}
	return n
}

// stop asks all relays to stop and waits.
func (f *fleet) stop() {
	for _, m := range f.members {
		f.pending.Go(func() { f.b.stop(m.Process) })
	}
	f.pending.Wait()
}
