package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// sleeper starts a process that does nothing and ends with the test.
func sleeper(t *testing.T, dir string) Process {
	t.Helper()
	p, err := start(exec.Command("sleep", "600"), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.End(context.Background(), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestSignalOnlyReachesTheProcessThatWasStarted(t *testing.T) {
	t.Parallel()
	p := sleeper(t, t.TempDir())
	reused := Process{Pid: p.Pid, Started: p.Started + "0"}
	if reused.Alive() {
		t.Error("a process with another start time counts as alive")
	}
	if err := reused.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal = %v, want os.ErrProcessDone", err)
	}
	if !p.Alive() {
		t.Error("the signal reached the stranger")
	}
	if none := (Process{}); none.Alive() {
		t.Error("the zero Process counts as alive")
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	p := sleeper(t, t.TempDir())
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.End(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("End of a stopped process: %v", err)
	}
	if p.Alive() {
		t.Error("alive after End")
	}
	if err := p.End(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("End of an ended process: %v", err)
	}
}

func TestEndKillsAfterTheDeadline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := start(exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1; done`), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := until(t.Context(), func() bool { return tail(dir) == "ready" }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.End(ctx, syscall.SIGTERM); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("End = %v, want the error of the context", err)
	}
	if err := until(t.Context(), func() bool { return !p.Alive() }); err != nil {
		t.Error(err)
	}
}

func TestEndAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var started []Process
	for _, name := range []string{"one", "two/deep", "two/deep/data/hidden"} {
		inner := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		started = append(started, sleeper(t, inner))
	}
	if err := EndAll(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if started[0].Alive() || started[1].Alive() {
		t.Error("a noted process is alive after EndAll")
	}
	if !started[2].Alive() {
		t.Error("EndAll looked into a data folder")
	}
	if err := EndAll(t.Context(), filepath.Join(dir, "missing")); err != nil {
		t.Errorf("EndAll of a missing folder: %v", err)
	}
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] || port < lowestPort || port >= highestPort {
			t.Errorf("port %d comes twice or is out of range", port)
		}
		seen[port] = true
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*poll)
	defer cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock of a held lock = %v, want the error of the context", err)
	}
	// Who waits while the holder deletes the file, as down does, must not end up with a lock on the deleted one.
	taken := make(chan func())
	go func() {
		unlock, err := Lock(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		taken <- unlock
	}()
	if err := os.Remove(path); err != nil { // the folder could be refilled while it is emptied
		t.Fatal(err)
	}
	second := <-taken
	unlock()
	if got, err := tryLock(path); got != nil || err != nil {
		t.Errorf("a third got the lock, too, or an error: %v", err)
	}
	second()
}
