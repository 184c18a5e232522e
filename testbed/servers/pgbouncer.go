package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncerConfig says which pooler to start.
type PgBouncerConfig struct {
	Server   string // URL of the PostgreSQL behind it, for a user and password that it uses for all
	PoolMode string // session, transaction or statement
	PoolSize int    // connections to the server for each database
}

// PgBouncer is a running pooler. Prepared statements of its clients are not tracked, as before version 1.21.
type PgBouncer struct {
	dir, data string
	port      int
	process   Process
}

// StartPgBouncer starts a pooler that serves every database of the server, and returns when it answers. The program
// must be installed: scripts/install sees to that on Debian.
func StartPgBouncer(ctx context.Context, config PgBouncerConfig) (*PgBouncer, error) {
	b, err := startPgBouncer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	return b, nil
}

func startPgBouncer(ctx context.Context, config PgBouncerConfig) (*PgBouncer, error) {
	program, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	server, err := pgx.ParseConfig(config.Server)
	if err != nil {
		return nil, err
	}
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := serverFolder("", "pgbouncer")
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{dir: dir, port: ports[0]}
	if b.data, err = dataFolder(dir, as); err == nil {
		err = b.configure(ctx, program, server, config, as)
	}
	if err == nil {
		err = b.start(ctx, program, as)
	}
	if err != nil {
		return nil, errors.Join(err, b.Remove())
	}
	return b, nil
}

// findPgBouncer looks where Debian puts it too, which is not on every user's path.
func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the program pgbouncer is not installed; run scripts/install, or install it")
}

// configure writes what the pooler reads. The user of the server may come in without a password.
func (b *PgBouncer) configure(ctx context.Context, program string, server *pgx.ConnConfig, config PgBouncerConfig,
	as *syscall.Credential) error {
	quoted := "'" + strings.ReplaceAll(server.Password, "'", "''") + "'"
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = %s
pool_mode = %s
default_pool_size = %d
max_client_conn = 300
server_lifetime = 3600
`, server.Host, server.Port, server.User, quoted, b.port, b.file("users"),
		server.User, config.PoolMode, config.PoolSize)
	if tracksStatements(ctx, program) {
		settings += "max_prepared_statements = 0\n"
	}
	users := fmt.Sprintf("%q \"\"\n", server.User)
	for name, text := range map[string]string{"users": users, "settings": settings} {
		err := os.WriteFile(b.file(name), []byte(text), 0o600)
		if err == nil && as != nil {
			err = os.Chown(b.file(name), int(as.Uid), int(as.Gid))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tracksStatements tells whether the program knows max_prepared_statements, which older ones refuse.
func tracksStatements(ctx context.Context, program string) bool {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	var major, minor int
	_, scanned := fmt.Sscanf(string(out), "PgBouncer %d.%d", &major, &minor)
	return err == nil && scanned == nil && (major > 1 || minor >= 21)
}

func (b *PgBouncer) file(name string) string { return filepath.Join(b.data, name) }

func (b *PgBouncer) start(ctx context.Context, program string, as *syscall.Credential) (err error) {
	cmd := exec.CommandContext(context.Background(), program, b.file("settings"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if b.process, err = start(cmd, b.dir); err != nil {
		return err
	}
	var last error
	err = until(ctx, func() bool {
		last = PingPostgres(ctx, b.url("postgres"))
		return last == nil || !b.process.Alive()
	})
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("wait for an answer: %w; the last try: %w", err, last))
	case last != nil:
		return fmt.Errorf("it ended:\n%s", tail(b.dir))
	}
	return nil
}

func (b *PgBouncer) url(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&default_query_exec_mode=exec", b.port,
		database)
}

// Addr returns host:port, where every database of the server is found under its name.
func (b *PgBouncer) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// Admin runs a command of the pooler's own, such as PAUSE or RELOAD, and returns when it is done.
func (b *PgBouncer) Admin(ctx context.Context, command string) error {
	config, err := pgx.ParseConfig(b.url("pgbouncer"))
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // all that its console speaks
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("tell PgBouncer to %s: %w", command, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, command).ReadAll(); err != nil {
		return fmt.Errorf("tell PgBouncer to %s: %w", command, err)
	}
	return nil
}

// Log returns what the pooler has logged.
func (b *PgBouncer) Log() (string, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	return string(text), err
}

// Remove kills the pooler and deletes its folder.
func (b *PgBouncer) Remove() error {
	return errors.Join(b.process.End(context.Background(), syscall.SIGKILL), RemoveFolder(b.dir))
}
