package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// team is a subject at work: one process, several, or none where it needs none.
type team []*running

// running is one process of a subject.
type running struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
	err    error // of Wait; read only after exited is closed
}

// used is what the processes have taken.
type used struct {
	cpu    time.Duration
	memory int64 // peak resident set in bytes, all of them together; 0 if unknown
}

// start starts n processes of a subject.
func start(s Subject, p place, n int) (team, error) {
	var t team
	for range n {
		cmd := s.Command(p)
		if cmd == nil {
			return nil, nil
		}
		r, err := startProcess(cmd)
		if err != nil {
			t.kill()
			return nil, fmt.Errorf("start %s: %w", s.Name(), err)
		}
		t = append(t, r)
	}
	return t, nil
}

func startProcess(cmd *exec.Cmd) (*running, error) {
	log, err := os.CreateTemp("", "posthaste-bench-*.log")
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: an interrupt typed at the terminal is the bench's to hear.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close(), os.Remove(log.Name()))
	}
	r := &running{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		close(r.exited)
	}()
	return r, nil
}

// ended is closed when the first process has ended; it blocks for ever for a team of none.
func (t team) ended() <-chan struct{} {
	for _, r := range t {
		select {
		case <-r.exited:
			return r.exited
		default:
		}
	}
	if len(t) == 0 {
		return nil
	}
	return t[0].exited
}

// stop asks the processes to end, sees that they do well, and returns what they took.
func (t team) stop() (used, error) {
	var sum used
	for _, r := range t {
		sum.memory += peakMemory(r.cmd.Process.Pid)
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return sum, t.failure("stop subject", err)
		}
	}
	late := time.After(30 * time.Second)
	for _, r := range t {
		select {
		case <-r.exited:
		case <-late:
			t.kill()
			return sum, t.failure("stop subject: it still ran after 30 seconds", nil)
		}
		if r.err != nil {
			return sum, t.failure("stop subject", r.err)
		}
		sum.cpu += r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
	}
	return sum, nil
}

// kill ends the processes at once, if they run, and removes what they logged.
func (t team) kill() {
	for _, r := range t {
		_ = r.cmd.Process.Kill()
		<-r.exited
		_ = r.log.Close()
		_ = os.Remove(r.log.Name())
	}
}

// failure adds to an error what the processes said last.
func (t team) failure(what string, err error) error {
	if err != nil {
		what += ": " + err.Error()
	}
	for _, r := range t {
		select {
		case <-r.exited:
			what += fmt.Sprintf("; the subject has ended: %s", r.cmd.ProcessState)
		default:
		}
		what += "; it logged last:\n" + r.tail()
	}
	return errors.New(what)
}

func (r *running) tail() string {
	text, err := os.ReadFile(r.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}
