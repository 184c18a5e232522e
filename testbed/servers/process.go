package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// poll is how often a condition outside this process is looked at again.
	poll = 20 * time.Millisecond

	// answerLimit is how long a server may take to answer a ping: much longer than one does on a busy machine, since a
	// server that does not answer is thrown away.
	answerLimit = 10 * time.Second
)

// Process names a process beyond doubt: a process id may be used again, but not with the same start time. Signals go
// only to the process that was started, never to a stranger that has its number now.
type Process struct {
	Pid     int
	Started string // as the operating system tells it; only compared

	reaped <-chan struct{} // closed when nothing is left of it; nil where another process has started it
}

// Find returns the process that has this id now.
func Find(pid int) (Process, error) {
	started, err := startTime(pid)
	if err != nil {
		return Process{}, fmt.Errorf("find process %d: %w", pid, err)
	}
	return Process{Pid: pid, Started: started}, nil
}

// Alive tells whether the process still runs. One that has ended and waits to be reaped does not.
func (p Process) Alive() bool {
	if p.Pid <= 0 {
		return false
	}
	started, err := startTime(p.Pid)
	return err == nil && started == p.Started
}

// Signal sends a signal. It returns os.ErrProcessDone when the process has ended.
func (p Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("signal process %d: %w", p.Pid, os.ErrProcessDone)
	}
	if err := syscall.Kill(p.Pid, sig); err != nil {
		return fmt.Errorf("signal process %d: %w", p.Pid, err)
	}
	return nil
}

// End sends a signal and waits until the process has ended. When ctx is done before, it kills the process and returns
// the error of ctx. A process that has ended already is no error.
func (p Process) End(ctx context.Context, sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// A stopped process keeps every signal but SIGKILL for later.
	if sig != syscall.SIGKILL {
		_ = p.Signal(syscall.SIGCONT)
	}
	err := until(ctx, func() bool { return !p.Alive() && p.gone() })
	if err != nil && sig != syscall.SIGKILL {
		_ = p.Signal(syscall.SIGKILL)
		return fmt.Errorf("end process %d: killed it, for it did not end by itself: %w", p.Pid, err)
	}
	return err
}

// gone tells whether the process is reaped, where that is for this one to do. A large one may take its time to end even
// after it counts as ended.
func (p Process) gone() bool {
	if p.reaped == nil {
		return true
	}
	select {
	case <-p.reaped:
		return true
	default:
		return false
	}
}

// start runs a command in a session of its own, so that it outlives this process and no Ctrl-C reaches it, with its
// output appended to dir/log. The process is noted in dir, where Noted finds it.
func start(cmd *exec.Cmd, dir string) (Process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Process{}, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	p, err := Find(cmd.Process.Pid)
	reaped := make(chan struct{})
	go func() { // ends with the server, which the caller ends
		_ = cmd.Wait()
		close(reaped)
	}()
	p.reaped = reaped
	if err != nil {
		return Process{}, fmt.Errorf("start %s: it ended at once:\n%s", filepath.Base(cmd.Path), tail(dir))
	}
	note := fmt.Sprintf("%d\n%s\n", p.Pid, p.Started)
	if err := os.WriteFile(filepath.Join(dir, "process"), []byte(note), 0o644); err != nil {
		_ = p.Signal(syscall.SIGKILL)
		return Process{}, fmt.Errorf("note process of %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// load returns the process noted in dir, alive or not.
func load(dir string) (Process, error) {
	text, err := os.ReadFile(filepath.Join(dir, "process"))
	if err != nil {
		return Process{}, err
	}
	var p Process
	pid, started, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if _, err := fmt.Sscan(pid, &p.Pid); err != nil || started == "" {
		return Process{}, fmt.Errorf("read %s: it should hold a process id and a start time",
			filepath.Join(dir, "process"))
	}
	p.Started = started
	return p, nil
}

// EndAll kills every process noted in dir or below and waits until they have ended. It is how servers whose data is not
// wanted any more are ended: nothing is flushed.
func EndAll(ctx context.Context, dir string) error {
	all, err := Noted(dir)
	errs := []error{err}
	for _, p := range all {
		if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	for _, p := range all {
		errs = append(errs, until(ctx, func() bool { return !p.Alive() }))
	}
	return errors.Join(errs...)
}

// Noted returns the servers' processes noted in dir and below, alive or not. Where dir is missing there are none.
func Noted(dir string) ([]Process, error) {
	var all []Process
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "data": // may be large
			return filepath.SkipDir
		case entry.IsDir() || entry.Name() != "process":
			return nil
		}
		p, err := load(filepath.Dir(path))
		if err == nil {
			all = append(all, p)
		}
		return err
	})
	return all, err
}

// until waits for a condition. The error is that of ctx.
func until(ctx context.Context, condition func() bool) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// tail returns the last lines of a server's log, for an error that needs its cause.
func tail(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
