package process_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste.dev/posthaste/e2e/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, script string, env ...string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Spec{
		Binary: "/bin/sh", Args: []string{"-c", script}, Env: env, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func status(t *testing.T, p *process.Process) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestStatusAndLog(t *testing.T) {
	t.Setenv("STRAY", "set")
	p := start(t, `echo "one"; echo "two $GIVEN${STRAY}" >&2; exit 3`, "GIVEN=three")
	if s := status(t, p); s != 3 {
		t.Errorf("status %d, want 3", s)
	}
	if tail := p.LogTail(1); tail != "two three" {
		t.Errorf("log ends with %q, want %q", tail, "two three")
	}
}

func TestTerminateCanBeCaught(t *testing.T) {
	p := start(t, `trap "exit 7" TERM; echo ready; while :; do sleep 0.01; done`)
	await(t, "the script never gets ready", func() bool { return strings.Contains(p.LogTail(1), "ready") })
	p.Terminate()
	if s := status(t, p); s != 7 {
		t.Errorf("status %d, want 7", s)
	}
}

func TestKillIsSafeTwice(t *testing.T) {
	p := start(t, `sleep 60`)
	p.Kill()
	p.Kill()
	if s := status(t, p); s != -1 {
		t.Errorf("status %d, want -1", s)
	}
}

// stopped tells whether a process is stopped by a signal. It asks ps, which every unix has.
func stopped(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
	return err == nil && strings.HasPrefix(string(state), "T")
}

func TestFreezeAndThaw(t *testing.T) {
	p := start(t, `sleep 60`)
	p.Freeze()
	await(t, "the process is not stopped", func() bool { return stopped(p.Pid()) })
	p.Thaw()
	await(t, "the process does not go on", func() bool { return !stopped(p.Pid()) })
}

func TestStallStopsAndLetsGo(t *testing.T) {
	p := start(t, `sleep 60`)
	over := make(chan error, 1)
	go func() { over <- process.Stall(2*time.Second, p.Pid()) }()
	await(t, "the process is not stopped", func() bool { return stopped(p.Pid()) })
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if stopped(p.Pid()) {
		t.Error("the process is still stopped")
	}
}

func TestStallRefusesNobody(t *testing.T) {
	if err := process.Stall(time.Millisecond); err == nil {
		t.Error("no error without process ids")
	}
}
