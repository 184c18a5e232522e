//go:build unix

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"posthaste.dev/posthaste/testbed/servers"
)

// relay is `posthaste relay` as a process.
type relay struct {
	name    string
	log     string
	cmd     *exec.Cmd
	exited  chan struct{}
	ours    chan struct{} // closed when its end is our own doing
	address string        // of its pages, once it has logged it
}

// addRelay starts one more. When it ends by itself, so does the demo, unless somebody is trying things out.
func (d *demo) addRelay() (*relay, error) {
	name := fmt.Sprintf("relay-%d", len(d.relays)+1)
	r := &relay{name: name, log: filepath.Join(d.folder, name+".log")}
	r.exited, r.ours = make(chan struct{}), make(chan struct{})
	log, err := os.Create(r.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close() // the child has its own descriptor
	r.cmd = exec.Command(d.Program, "relay")
	r.cmd.Dir, r.cmd.Env = d.folder, d.environ()
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which stops its relays
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d.relays = append(d.relays, r)
	if p, err := servers.Find(r.pid()); err == nil {
		if err := d.cleaner.note(note{Process: &p}); err != nil {
			return nil, err
		}
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.exited)
		select {
		case <-r.ours:
		default:
			if d.kept.Load() {
				d.progress.say("relays", "pid %d has ended (%s)", r.pid(), r.cmd.ProcessState)
				return
			}
			d.fail(fmt.Errorf("%s ended by itself, %s; its last words:\n%s", name, r.cmd.ProcessState, r.tail()))
		}
	}()
	return r, nil
}

func (r *relay) pid() int { return r.cmd.Process.Pid }

func (r *relay) freeze() { _ = r.cmd.Process.Signal(syscall.SIGSTOP) }
func (r *relay) thaw()   { _ = r.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends it as a crash does and returns when it has gone. It works on a frozen one too.
func (r *relay) kill() {
	close(r.ours)
	_ = r.cmd.Process.Kill()
	<-r.exited
}

// terminate asks it to stop; gone waits for that. Both are for the end, also of one that was killed.
func (r *relay) terminate() {
	select {
	case <-r.ours:
		return
	default:
		close(r.ours)
	}
	r.thaw()
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
}

func (r *relay) gone(limit time.Duration) {
	select {
	case <-r.exited:
	case <-time.After(limit):
		_ = r.cmd.Process.Kill()
		<-r.exited
	}
}

// await waits until a relay is ready with a number of lanes that pleases.
func (d *demo) await(ctx context.Context, r *relay, pleases func(owned, all int) bool) error {
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		owned, all, err := r.lanes(bounded)
		if err == nil && pleases(owned, all) {
			return nil
		}
		if pause(bounded, 20*time.Millisecond) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("wait for %s: not ready after a minute: %w; its last words:\n%s", r.name, err, r.tail())
		}
	}
}

// lanes asks the relay how many lanes it has; the error says why it is not ready.
func (r *relay) lanes(ctx context.Context) (owned, all int, err error) {
	if r.address == "" {
		if r.address = r.logged("http"); r.address == "" {
			return 0, 0, errors.New("it has logged no address yet")
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/readyz", nil)
	if err != nil {
		return 0, 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1000))
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscanf(string(text), "ready: %d of %d lanes", &owned, &all); err != nil {
		return 0, 0, errors.New(strings.TrimSpace(string(text)))
	}
	return owned, all, nil
}

// logged returns the first value of an attribute in the relay's log, "" as long as there is none.
func (r *relay) logged(attribute string) string {
	text, _ := os.ReadFile(r.log)
	for line := range bytes.Lines(text) {
		var entry map[string]any
		if json.Unmarshal(line, &entry) == nil {
			if value, ok := entry[attribute].(string); ok {
				return value
			}
		}
	}
	return ""
}

func (r *relay) tail() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
