//go:build unix

package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
)

// progress tells what happens, a line a stage. On a terminal the line of a running stage counts the seconds; elsewhere
// a stage that takes long says now and then that it goes on. It may be used concurrently.
type progress struct {
	mu   sync.Mutex
	out  io.Writer
	live bool // lines can be written over
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, live: term.On(out).Moves}
}

// say tells of something that is so now.
func (p *progress) say(name, format string, args ...any) {
	p.print(name, fmt.Sprintf(format, args...), "\n")
}

func (p *progress) print(name, text, end string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		_, _ = fmt.Fprint(p.out, clearLine)
	}
	if text != "" {
		_, _ = fmt.Fprintf(p.out, "%-10s %s%s", name, text, end)
	}
}

const clearLine = "\r\x1b[K"

// step does something that takes time and tells what was done. Meanwhile doing says, again and again, what is going on.
func (p *progress) step(name string, doing func() string, do func() (done string, err error)) error {
	began := time.Now()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	end := "\n"
	if p.live {
		tick.Reset(200 * time.Millisecond)
		end = ""
		p.print(name, doing()+" ...", end)
	}
	over, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		for {
			select {
			case <-tick.C:
				p.print(name, fmt.Sprintf("%s ... %.0f s", doing(), time.Since(began).Seconds()), end)
			case <-over:
				return
			}
		}
	}()
	done, err := do()
	close(over)
	<-quiet
	if err != nil {
		done = ""
	}
	p.print(name, done, "\n")
	return err
}

// words is for a step of which nothing can be counted.
func words(s string) func() string { return func() string { return s } }
