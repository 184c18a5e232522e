//go:build unix

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/testbed/servers"
)

// note names something that the demo makes and the cleaner removes. It is written before the thing is made.
type note struct {
	Process *servers.Process `json:",omitempty"`
	Folder  string           `json:",omitempty"` // of servers, which are ended
	Schema  *schemaNote      `json:",omitempty"`
	Topics  *topicsNote      `json:",omitempty"`
}

type schemaNote struct{ URL, Name string }

type topicsNote struct {
	Kafka kafka.Config
	Names []string
}

// cleaner is a process that reads notes from a pipe and, when the pipe ends, removes what they name. The pipe ends with
// the demo however that ends: by itself, by a second Ctrl-C, by the terminal that goes away, by SIGKILL. That is why
// there is no other clean-up.
type cleaner struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// CleanerArgs are the arguments by which posthaste runs CleanUp on its standard input.
var CleanerArgs = []string{"demo", "clean-up"}

func startCleaner(program string) (*cleaner, error) {
	cmd := exec.Command(program, CleanerArgs...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the reach of Ctrl-C
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start cleaner: %w", err)
	}
	return &cleaner{cmd, pipe}, nil
}

func (c *cleaner) note(n note) error {
	if err := json.NewEncoder(c.pipe).Encode(n); err != nil {
		return fmt.Errorf("note what to clean up: %w", err)
	}
	return nil
}

// close lets the cleaner do its work and waits for it.
func (c *cleaner) close() error {
	err := c.pipe.Close()
	if err := errors.Join(err, c.cmd.Wait()); err != nil {
		return errors.New("clean up: not all could be removed, see above")
	}
	return nil
}

// CleanUp reads notes until in ends and then removes what they name: processes first, since they use the rest. The
// errors say what is left and how to remove it by hand.
func CleanUp(in io.Reader) error {
	var notes []note
	for d := json.NewDecoder(in); ; {
		var n note
		err := d.Decode(&n)
		if err != nil {
			break // the end, or half a note of a demo that was killed: nothing was made of it
		}
		notes = append(notes, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for _, n := range notes {
		if n.Process != nil {
			errs = append(errs, n.Process.End(ctx, syscall.SIGKILL))
		}
	}
	for _, n := range notes {
		switch {
		case n.Schema != nil:
			errs = append(errs, n.Schema.remove(ctx))
		case n.Topics != nil:
			errs = append(errs, n.Topics.remove(ctx))
		case n.Folder != "":
			errs = append(errs, servers.EndAll(ctx, n.Folder), servers.RemoveFolder(n.Folder))
		}
	}
	return errors.Join(errs...)
}

func (s schemaNote) remove(ctx context.Context) error {
	drop := "drop schema if exists " + pgx.Identifier{s.Name}.Sanitize() + " cascade"
	conn, err := pgx.Connect(ctx, s.URL)
	if err == nil {
		_, err = conn.Exec(ctx, drop)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("drop schema: %w; it is still there, please run: %s", err, drop)
	}
	return nil
}

func (t topicsNote) remove(ctx context.Context) error {
	opts, err := t.Kafka.ClientOptions()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	answers, err := kadm.NewClient(client).DeleteTopics(ctx, t.Names...)
	for _, answer := range answers {
		if !errors.Is(answer.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, answer.Err)
		}
	}
	if err != nil {
		return fmt.Errorf("delete topics: %w; please delete %v by hand", err, t.Names)
	}
	return nil
}
