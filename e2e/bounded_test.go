package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/e2e/process"
)

// mostMemory is what a relay may take at its default settings, whatever waits in the table.
const mostMemory = 256 << 20

// A relay at its defaults stays below a bound over a long backlog, and over one of payloads at the limit of their topic
// with a row of 20 MiB among them, which Kafka refuses: that row stops its own key, all else flows.
func TestMemoryIsBounded(t *testing.T) {
	small, large := 20_000, 250
	if os.Getenv("POSTHASTE_E2E_LONG") != "" {
		small, large = 5_000_000, 2_000
	}
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	half := large / 2
	b.fill(small/2, 100)
	b.fill(half, 1_000_000) // the default limit of a record is 1,048,588 bytes
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		values (gen_random_uuid(), 'Order', 'huge', 'order.confirmed.v1', to_jsonb(repeat('x', 20 << 20)), $1, 'huge')`,
		b.topics[0])
	b.fill(large-half, 1_000_000)
	b.fill(small-small/2, 100)
	b.exec("analyze outbox_event")

	spec := b.relay()
	spec.Env = []string{"DATABASE_URL=" + b.dsn, "KAFKA_BROKERS=" + strings.Join(b.kafka.relays, ","),
		"POSTHASTE_HTTP_ADDR="}
	began := time.Now()
	relay := b.start(spec)
	left := 1 + small + large
	b.await(span(90*time.Second, 15*time.Minute), "all but the huge one are published", func() bool {
		b.letPass(200 * time.Millisecond) // a count reads the whole backlog
		b.ok(b.db.QueryRow(b.ctx, `select count(*) from outbox_event where published_at is null`).Scan(&left))
		return left <= 1
	})
	took := time.Since(began)
	peak := peakMemory(t, relay)
	b.stop(relay)
	var key string
	b.ok(b.db.QueryRow(b.ctx, `select partition_key from outbox_event where published_at is null`).Scan(&key))
	if key != "huge" {
		t.Errorf("the event that is left has the key %s", key)
	}
	t.Logf("%d events of 100 bytes and %d of a million: peak memory %d MiB, %s", small, large, peak>>20,
		took.Round(time.Second))
	if peak > mostMemory {
		t.Errorf("peak memory %d MiB, want at most %d", peak>>20, mostMemory>>20)
	}
}

// A relay that a supervisor holds to half of that, and that is told of it (GOMEMLIMIT), does the same work. Below what
// it needs it would be killed by the system, which is kill -9 to everybody else.
func TestRelayUnderAMemoryLimit(t *testing.T) {
	onlyLong(t)
	const limit = 128 << 20
	group := memoryGroup(t, limit)
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	const events = 500
	b.fill(events, 1_000_000)
	spec := b.relay()
	spec.Env = []string{"DATABASE_URL=" + b.dsn, "KAFKA_BROKERS=" + strings.Join(b.kafka.relays, ","),
		"POSTHASTE_HTTP_ADDR=", fmt.Sprintf("GOMEMLIMIT=%d", limit*3/4)}
	relay := b.start(spec)
	b.ok(os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(relay.Pid())), 0o644))
	b.drain(time.Minute)
	t.Logf("peak memory %d MiB", peakMemory(t, relay)>>20)
	b.stop(relay)
	report := b.judge(check.History{})
	if err := report.Err(); err != nil || report.Records != events {
		t.Errorf("%s: %v", report, err)
	}
}

// memoryGroup makes a control group whose processes may take so much together.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	dir, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, file = "/sys/fs/cgroup", "memory.max"
	}
	dir = filepath.Join(dir, "posthaste-"+random())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("this user makes no control groups: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		t.Skipf("this system does not bound the memory of a control group: %v", err)
	}
	return dir
}

// fill commits so many events of about that size, of 100 keys. The text is such that compression makes little of it.
func (b *bed) fill(events, size int) {
	b.t.Helper()
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', jsonb_build_object('n', n, 'pad', pad), $1,
		    'key-' || n % 100
		from (select left(string_agg(md5(i::text), ''), $3::int - 30) as pad
		      from generate_series(0, $3::int / 32) i) text,
		    generate_series(1, $2::int) n`, b.topics[0], events, size)
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peakMemory returns the most that a process has had in memory at a time, in bytes.
func peakMemory(t *testing.T, p *process.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Skipf("this system does not tell of a process's memory: %v", err)
	}
	found := highWater.FindSubmatch(status)
	if found == nil {
		t.Skip("this system does not tell of the peak of a process's memory")
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
