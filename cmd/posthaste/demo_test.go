//go:build unix

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/testbed/servers"
)

// demoRun is `posthaste demo` as a process. What it makes on disk lies in tmp.
type demoRun struct {
	*exec.Cmd
	tmp   string
	lines *bufio.Scanner
	seen  strings.Builder
}

// startDemo starts one with the servers that env gives. testscript has put posthaste into PATH.
func startDemo(t *testing.T, env []string, args ...string) *demoRun {
	t.Helper()
	// T.TempDir would be closed to the user as whom PostgreSQL runs when we are root.
	tmp, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"demo", "--for", "2s", "--rate", "300"}, args...)
	d := &demoRun{Cmd: exec.Command("posthaste", args...), tmp: tmp}
	d.Env = append(os.Environ(), "DATABASE_URL=", "KAFKA_BROKERS=", "TMPDIR="+tmp)
	d.Env = append(d.Env, env...)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.Stdout, d.Stderr = write, write
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	d.lines = bufio.NewScanner(read)
	t.Cleanup(func() {
		_ = d.Process.Kill()
		d.readUntil("\x00")
		read.Close()
		if err := os.Remove(tmp); err != nil {
			t.Errorf("something is left on disk: %v", err)
		}
		for _, pid := range d.pids() {
			if n, err := strconv.Atoi(pid); err != nil || alive(n) {
				t.Errorf("process %s is left", pid)
			}
		}
		if t.Failed() {
			t.Logf("the demo said:\n%s", &d.seen)
		}
	})
	return d
}

// readUntil reads the output up to a line with the text, or to its end, which comes when the last process that the demo
// started has gone.
func (d *demoRun) readUntil(text string) bool {
	for d.lines.Scan() {
		d.seen.WriteString(d.lines.Text() + "\n")
		if strings.Contains(d.lines.Text(), text) {
			return true
		}
	}
	return false
}

// pids returns those of the relays.
func (d *demoRun) pids() []string {
	var all []string
	for _, m := range regexp.MustCompile(`pids (\d+) and (\d+)`).FindAllStringSubmatch(d.seen.String(), -1) {
		all = append(all, m[1:]...)
	}
	return all
}

func alive(pid int) bool {
	_, err := servers.Find(pid)
	return err == nil
}

func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("downloads PostgreSQL; skipped under -short")
	}
	d := startDemo(t, nil)
	d.readUntil("\x00")
	if err := d.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`kill -9 +pid \d+, with events in Kafka that it had not marked yet: [1-9]`,
		`written +[1-9]`, `rolled back +[1-9]`, `delivered +[1-9]`, `lost +0`, `phantom +0`, `reordered +0`,
		`Passed in`, `nothing is left behind`,
	} {
		if !regexp.MustCompile(want).MatchString(d.seen.String()) {
			t.Errorf("no %q", want)
		}
	}
}

// Whatever ends the demo, the checks of startDemo must find nothing left.
func TestDemoThatIsEnded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("downloads PostgreSQL; skipped under -short")
	}
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, nil)
			if !d.readUntil("two processes share the keys") {
				t.Fatal("no relays")
			}
			if err := d.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			d.readUntil("\x00")
			if err := d.Wait(); err == nil {
				t.Error("exit status 0 without a verdict")
			}
		})
	}
}

func TestDemoOnGivenServers(t *testing.T) {
	t.Parallel()
	url, brokers := testenv.Require(t, testenv.DatabaseURL), testenv.Require(t, testenv.KafkaBrokers)
	d := startDemo(t, []string{"DATABASE_URL=" + url, "KAFKA_BROKERS=" + brokers}, "--keep")
	if !d.readUntil("Everything runs on") || !d.readUntil("Logs of the relays") {
		t.Fatal("it does not go on")
	}
	schema := regexp.MustCompile(`posthaste_demo_\w+`).FindString(d.seen.String())
	topic := regexp.MustCompile(`posthaste-demo-\w+\.order\.\w+`).FindString(d.seen.String())
	if !has(t, url, schema) || !slices.Contains(topics(t, brokers), topic) {
		t.Errorf("schema %q or topic %q is not there while it runs", schema, topic)
	}
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.readUntil("\x00")
	if err := d.Wait(); err != nil {
		t.Errorf("a check that passed, and then: %v", err)
	}
	prefix, _, _ := strings.Cut(topic, ".")
	left := slices.DeleteFunc(topics(t, brokers), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if has(t, url, schema) || len(left) > 0 {
		t.Errorf("schema %q or topics %q are left", schema, left)
	}
}

func has(t *testing.T, url, schema string) (is bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	err = conn.QueryRow(t.Context(), `select exists (select from pg_namespace where nspname = $1)`, schema).Scan(&is)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func topics(t *testing.T, brokers string) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list.Names()
}
