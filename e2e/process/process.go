// Package process starts relays as processes of their own and does to them, and to brokers, what a bad day does: kill,
// terminate, freeze.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Binary string
	Args   []string
	Env    []string // the whole environment besides PATH and HOME: a developer's own settings must not leak in
	Log    string   // file that takes standard output and error; appended to
}

// Process is a process that was started. All methods may be called concurrently.
type Process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // of Wait; read only after exited is closed
}

// Start starts it. Somebody must see to its end: Kill is safe at any time.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(spec.Binary, spec.Args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: an interrupt typed at the terminal stops the tests, which then stop their relays.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	p := &Process{cmd: cmd, log: spec.Log, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process at once, as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Terminate asks the process to stop. Wait tells how it did.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Freeze stops the process where it stands until Thaw.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	// The only error, "already finished", is what the callers of Kill want and what Wait shows to the others.
	_ = p.cmd.Process.Signal(s)
}

// Wait waits for the end of the process and returns its exit status, -1 where a signal ended it. When the context ends
// first, it returns an error.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for process %d: %w", p.Pid(), ctx.Err())
	}
}

// Logged tells whether the process has logged anything.
func (p *Process) Logged() bool {
	info, err := os.Stat(p.log)
	return err == nil && info.Size() > 0
}

// LogTail returns the last lines that the process has logged.
func (p *Process) LogTail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// LogLines counts the lines that the process has logged.
func (p *Process) LogLines() int {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return 0 // it is there as soon as the process is
	}
	return strings.Count(string(text), "\n")
}

// Starve lets the processes with these ids run a tenth of the time only, in bursts of 20 ms, and returns when it is
// over. Like Stall it leaves no process stopped, whatever becomes of the caller.
func Starve(d time.Duration, pids ...int) error {
	return bursts(int(d/(200*time.Millisecond)), 180*time.Millisecond, 20*time.Millisecond, pids)
}

// Stall stops the processes with these ids for a while and lets them go on, all together, and returns when they do. It
// is a child that does it: whatever becomes of the caller meanwhile, no broker stays stopped.
func Stall(d time.Duration, pids ...int) error {
	return bursts(1, d, 0, pids)
}

// bursts stops the processes and lets them go on, so many times.
func bursts(times int, stopped, running time.Duration, pids []int) error {
	if len(pids) == 0 {
		return errors.New("stall processes: no process ids")
	}
	ids := strings.Trim(fmt.Sprint(pids), "[]")
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do kill -STOP %s; sleep %.3f; kill -CONT %s; sleep %.3f; "+
		"i=$((i+1)); done", times, ids, stopped.Seconds(), ids, running.Seconds())
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("stall processes %s: %w: %s", ids, err, out)
	}
	return nil
}
