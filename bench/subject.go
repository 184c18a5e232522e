package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Subject is something that empties the outbox. To add one, write it in a file of its own and list it in allSubjects.
type Subject interface {
	Name() string
	// Ships tells whether it publishes to Kafka; one that does not only marks events, and no scenario that needs a
	// consumer runs it.
	Ships() bool
	// Prepare makes what it needs beside the outbox, which is there. It is not measured.
	Prepare(ctx context.Context, p place) error
	// Command is the process that does the work until SIGTERM.
	Command(p place) *exec.Cmd
}

// allSubjects lists the subjects. The first is what the ratios refer to.
func (o options) allSubjects() []Subject {
	return []Subject{
		handwritten{batch: 50},
		handwritten{batch: 1000},
		&posthaste{binary: o.posthaste},
		markBound{},
	}
}

// running is a subject at work.
type running struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan error
}

// start starts a subject.
func start(s Subject, p place) (*running, error) {
	log, err := os.CreateTemp("", "posthaste-bench-*.log")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name(), err)
	}
	cmd := s.Command(p)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name(), err)
	}
	r := &running{cmd: cmd, log: log, done: make(chan error, 1)}
	go func() { r.done <- cmd.Wait() }()
	return r, nil
}

// stop asks the process to end, sees that it does well, and returns the processor time it took.
func (r *running) stop() (time.Duration, error) {
	defer r.log.Close()
	defer os.Remove(r.log.Name())
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop subject: %w; it logged last:\n%s", err, r.tail())
	}
	select {
	case err := <-r.done:
		if err != nil {
			return 0, fmt.Errorf("stop subject: %w; it logged last:\n%s", err, r.tail())
		}
	case <-time.After(30 * time.Second):
		r.kill()
		return 0, fmt.Errorf("stop subject: it still ran after 30 seconds; it logged last:\n%s", r.tail())
	}
	return r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime(), nil
}

// kill ends the process at once; it may have ended already.
func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	_ = os.Remove(r.log.Name())
}

func (r *running) tail() []byte {
	text, err := os.ReadFile(r.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-2000):]
}

// self is a relay of this command, as a process.
func self(p place, args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = p.environment(), p.scratch
	return cmd
}

// handwritten is what teams write themselves, done well; see relay_handwritten.go.
type handwritten struct{ batch int }

func (h handwritten) Name() string                         { return fmt.Sprintf("handwritten-%d", h.batch) }
func (h handwritten) Ships() bool                          { return true }
func (h handwritten) Prepare(context.Context, place) error { return nil }
func (h handwritten) Command(p place) *exec.Cmd {
	return self(p, "handwritten", strconv.Itoa(h.batch))
}

// markBound is the speed at which one session can read and mark, without any Kafka; see relay_markbound.go.
type markBound struct{}

func (markBound) Name() string                         { return "mark-bound" }
func (markBound) Ships() bool                          { return false }
func (markBound) Prepare(context.Context, place) error { return nil }
func (markBound) Command(p place) *exec.Cmd            { return self(p, "markbound") }

// posthaste is the relay of this project at its default settings.
type posthaste struct{ binary string }

func (s *posthaste) Name() string { return "posthaste" }
func (s *posthaste) Ships() bool  { return true }

// Prepare builds the binary when it is first wanted.
func (s *posthaste) Prepare(ctx context.Context, p place) error {
	if s.binary != "" {
		return nil
	}
	path := filepath.Join(p.scratch, "posthaste")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "posthaste.dev/posthaste/cmd/posthaste")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build posthaste: %w; run this inside the repository or use --posthaste\n%s", err, out)
	}
	s.binary = path
	return nil
}

func (s *posthaste) Command(p place) *exec.Cmd {
	cmd := exec.Command(s.binary, "relay")
	// Nothing listens, so that a bench can run beside a relay on the usual port.
	cmd.Env, cmd.Dir = append(p.environment(), "POSTHASTE_HTTP_ADDR="), p.scratch
	return cmd
}
