package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// posthaste is the relay of this project, at its defaults but for one setting.
type posthaste struct {
	name    string
	traits  traits
	binary  *binary
	env     string // a setting of the relay, if any
	migrate string // a flag of `posthaste migrate up`, if any
	storage string // parameters of the table, if any
}

func (s posthaste) Name() string   { return s.name }
func (s posthaste) Traits() traits { return s.traits }

func (s posthaste) Prepare(ctx context.Context, p place) error {
	if s.storage != "" {
		if _, err := p.db.Exec(ctx, "alter table outbox_event set ("+s.storage+")"); err != nil {
			return fmt.Errorf("set storage parameters: %w", err)
		}
	}
	if s.migrate == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, s.binary.path, "migrate", "up", s.migrate)
	cmd.Env, cmd.Dir = p.environment(), p.grounds.scratch
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run posthaste migrate up %s: %w\n%s", s.migrate, err, out)
	}
	return nil
}

func (s posthaste) Command(p place) *exec.Cmd {
	cmd := exec.Command(s.binary.path, "relay")
	// Nothing listens, so that several can run, beside a relay on the usual port.
	cmd.Env, cmd.Dir = append(p.environment(), "POSTHASTE_HTTP_ADDR="), p.grounds.scratch
	if s.env != "" {
		cmd.Env = append(cmd.Env, s.env)
	}
	return cmd
}

// binary is the posthaste that is measured.
type binary struct {
	path string
	once sync.Once
	err  error
}

// build builds it when it is first wanted, unless one is given.
func (b *binary) build(ctx context.Context, scratch string) error {
	b.once.Do(func() {
		if b.path != "" {
			return
		}
		path := filepath.Join(scratch, "posthaste")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "posthaste.dev/posthaste/cmd/posthaste")
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.err = fmt.Errorf("build posthaste: %w; run this inside the repository or use --posthaste\n%s", err, out)
			return
		}
		b.path = path
	})
	return b.err
}

// missing builds the binary and says what it, or the server, lacks to be this subject; "" for nothing.
func (s posthaste) missing(ctx context.Context, g *grounds) (string, error) {
	if err := s.binary.build(ctx, g.scratch); err != nil || s.migrate == "" {
		return "", err
	}
	help, err := exec.CommandContext(ctx, s.binary.path, "migrate", "up", "--help").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run posthaste migrate up --help: %w\n%s", err, help)
	}
	if !strings.Contains(string(help), s.migrate) {
		return "`posthaste migrate up` has no " + s.migrate, nil
	}
	var prepared string
	err = g.withServer(ctx, func(db *pgx.Conn) error {
		return db.QueryRow(ctx, "show max_prepared_transactions").Scan(&prepared)
	})
	if err != nil {
		return "", fmt.Errorf("connect to database: %w", err)
	}
	if prepared != "0" {
		return "max_prepared_transactions is " + prepared + ", which the wake-up can't live with " +
			"(it is 0 after go run ./testbed up --durable)", nil
	}
	return "", nil
}
