package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"posthaste.dev/posthaste/e2e/process"
)

// migrate runs `posthaste migrate up`, which adopts the seed's table.
func (b *bed) migrate(flags ...string) {
	b.t.Helper()
	b.command(append([]string{"migrate", "up"}, flags...)...)
}

// command runs a command of posthaste that does one thing.
func (b *bed) command(args ...string) {
	b.t.Helper()
	cmd := exec.CommandContext(b.ctx, posthaste(b.t), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, b.settings()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("posthaste %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// relay says how to run the relay under test; env goes before the defaults of the bed.
func (b *bed) relay(env ...string) process.Spec {
	return process.Spec{Binary: posthaste(b.t), Args: []string{"relay"}, Env: append(b.settings(), env...)}
}

// wrong says how to run a relay with this mistake.
func (b *bed) wrong(mistake string, env ...string) process.Spec {
	return process.Spec{Binary: wrongRelay(b.t), Env: append(b.settings(), append(env, "WRONG_RELAY="+mistake)...)}
}

// batchMax is small, so that the bound on duplicates, two chunks, is one that could be broken.
const batchMax = 40

func (b *bed) settings() []string {
	return []string{
		"DATABASE_URL=" + b.dsn,
		"KAFKA_BROKERS=" + strings.Join(b.kafka.relays, ","),
		fmt.Sprintf("OUTBOX_RELAY_BATCH_SIZE=%d", batchMax/2),
		fmt.Sprintf("POSTHASTE_RELAY_BATCH_MAX=%d", batchMax),
		"POSTHASTE_HTTP_ADDR=",
	}
}

// start starts a process and sees to its end. When the test fails, the end of its log is shown.
func (b *bed) start(spec process.Spec) *process.Process {
	b.t.Helper()
	b.started++
	name := fmt.Sprintf("relay %d", b.started)
	spec.Log = filepath.Join(b.t.TempDir(), "log")
	p, err := process.Start(spec)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		p.Kill()
		if b.t.Failed() {
			b.t.Logf("%s (process %d) logged last:\n%s", name, p.Pid(), p.LogTail(25))
		}
	})
	return p
}

// stop asks a relay to stop and fails the test unless it exits with status 0 in time. Before a process has said its
// first word, the signal would end it like any program.
func (b *bed) stop(p *process.Process) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 25*time.Second)
	defer cancel()
	b.await(25*time.Second, "the relay says its first word", p.Logged)
	p.Terminate()
	status, err := p.Wait(ctx)
	if err != nil {
		b.t.Errorf("relay does not stop: %v", err)
	} else if status != 0 {
		b.t.Errorf("stopped relay exits with status %d, want 0\n%s", status, p.LogTail(10))
	}
}
