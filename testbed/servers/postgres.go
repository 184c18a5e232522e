package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// password is that of the superuser. The servers hold nothing but test data and listen on the loopback; it is there so
// that a wrong password can be tested.
const password = "postgres"

// PostgresConfig says which server to start.
type PostgresConfig struct {
	Major    int               // 13 to 18
	Dir      string            // for data, log and process note; made if missing; "" = a new one, of the test bed
	Port     int               // 0 = a free one
	Durable  bool              // fsync and full page writes on: for measuring, and for crashes of more than the server
	TLS      *KeyPair          // nil for none; clients that do not ask for it are served all the same
	Settings map[string]string // of postgresql.conf, over the test bed's own
	Env      []string          // of the server, beside what it always has

	// Download is called before the binaries of a version are downloaded, which takes a while; nil for no need to know.
	Download func(version string)
}

// Postgres is a running server, or one that was stopped and can start again.
type Postgres struct {
	Major int

	dir, data, bin string
	port           int
	env            []string
	as             *syscall.Credential

	mu      sync.Mutex
	process Process
}

// StartPostgres makes a database cluster, starts its server and returns when that answers queries. synchronous_commit
// is on and wal_level is logical. When ctx ends before, it leaves nothing running.
func StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	s, err := newPostgres(ctx, config)
	if err == nil {
		err = s.initialize(ctx, config)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.Remove())
		}
		return nil, fmt.Errorf("start PostgreSQL %d: %w", config.Major, err)
	}
	return s, nil
}

func newPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	bin, err := postgresBin(ctx, config.Major, config.Download)
	if err != nil {
		return nil, err
	}
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	if config.Port == 0 {
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		config.Port = ports[0]
	}
	dir, err := serverFolder(config.Dir, fmt.Sprintf("postgres-%d", config.Major))
	if err != nil {
		return nil, err
	}
	data, err := dataFolder(dir, as)
	if err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	return &Postgres{Major: config.Major, dir: dir, data: data, bin: bin, port: config.Port, as: as,
		env: config.Env}, nil
}

func (s *Postgres) initialize(ctx context.Context, config PostgresConfig) error {
	secret, err := s.passwordFile()
	if err != nil {
		return fmt.Errorf("write password file: %w", err)
	}
	defer os.Remove(secret)
	cmd := s.command(ctx, "initdb", "--pgdata", s.data, "--username", "postgres", "--pwfile", secret,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run initdb: %w:\n%s", err, out)
	}
	settings := map[string]string{
		"listen_addresses":          "127.0.0.1",
		"port":                      fmt.Sprint(s.port),
		"unix_socket_directories":   "", // their paths have a length limit that a test's folder may pass
		"max_connections":           "300",
		"max_prepared_transactions": "10",
		"shared_buffers":            "256MB",
		"wal_level":                 "logical",
		"synchronous_commit":        "on",
		"fsync":                     "off",
		"full_page_writes":          "off",
		"log_line_prefix":           "%m [%p] %q%u@%d %a ",
	}
	if config.Durable {
		settings["fsync"], settings["full_page_writes"] = "on", "on"
		settings["max_prepared_transactions"] = "0" // as by default; the wake-up wants it so
	}
	if config.TLS != nil {
		settings["ssl"] = "on"
		if err := s.writeKey(config.TLS); err != nil {
			return fmt.Errorf("write key: %w", err)
		}
	}
	maps.Copy(settings, config.Settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	file, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	_, err = file.WriteString(text.String())
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// passwordFile writes the superuser's password where initdb can read it.
func (s *Postgres) passwordFile() (string, error) {
	file, err := os.CreateTemp("", "posthaste-postgres-")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(password + "\n")
	if s.as != nil {
		err = errors.Join(err, file.Chown(int(s.as.Uid), int(s.as.Gid)))
	}
	return file.Name(), errors.Join(err, file.Close())
}

// writeKey writes the key pair where the server looks for it by default. It wants the key to be its user's alone.
func (s *Postgres) writeKey(pair *KeyPair) error {
	for name, text := range map[string][]byte{"server.crt": pair.Certificate, "server.key": pair.Key} {
		path := filepath.Join(s.data, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		if s.as == nil {
			continue
		}
		if err := os.Chown(path, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// command prepares one of PostgreSQL's programs to run as the right user, in a folder that this user can enter.
func (s *Postgres) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir = s.data
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// start starts the server and waits until it answers. After a kill -9 the old server's children may live a moment
// longer; until they have gone the new one refuses to start, so it is tried again.
func (s *Postgres) start(ctx context.Context) error {
	for {
		cmd := s.command(context.Background(), "postgres", "-D", s.data)
		cmd.Env = append(cmd.Env, s.env...)
		process, err := start(cmd, s.dir)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.process = process
		s.mu.Unlock()
		var last error
		err = until(ctx, func() bool {
			last = PingPostgres(ctx, s.URL())
			return last == nil || !process.Alive()
		})
		switch {
		case err != nil:
			return errors.Join(fmt.Errorf("wait for an answer: %w; the last try: %w", err, last),
				process.End(context.Background(), syscall.SIGKILL))
		case last == nil:
			return nil
		case strings.Contains(tail(s.dir), "is still in use") && ctx.Err() == nil:
			continue
		default:
			return fmt.Errorf("it ended:\n%s", tail(s.dir))
		}
	}
}

// PingPostgres asks a server for an answer, at most 10 s long.
func PingPostgres(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "select 1")
	return err
}

// URL returns the address for the superuser, database postgres, without TLS. It stays the same when the server
// restarts.
func (s *Postgres) URL() string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", password, s.port)
}

// Port returns the port on 127.0.0.1.
func (s *Postgres) Port() int { return s.port }

// Pid returns the process id of the server's first process, of the last start.
func (s *Postgres) Pid() int { return s.noted().Pid }

// Alive tells whether the server's first process runs.
func (s *Postgres) Alive() bool { return s.noted().Alive() }

func (s *Postgres) noted() Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Stop ends the server in order: sessions are cut off, their transactions rolled back, and everything is written.
func (s *Postgres) Stop(ctx context.Context) error {
	return s.noted().End(ctx, syscall.SIGINT)
}

// Kill ends the server's first process by SIGKILL and returns when it has gone. The sessions' processes end by
// themselves as soon as they notice.
func (s *Postgres) Kill() error {
	return s.noted().End(context.Background(), syscall.SIGKILL)
}

// Restart stops the server if it runs and starts it again with the same data, on the same port. It returns when the
// server answers. It must not run concurrently with itself.
func (s *Postgres) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL %d: %w", s.Major, err)
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL %d: %w", s.Major, err)
	}
	return nil
}

// Remove kills the server and deletes its folder.
func (s *Postgres) Remove() error {
	return errors.Join(s.Kill(), RemoveFolder(s.dir))
}
