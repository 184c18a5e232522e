package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ConnectError says why a connection could not be opened. It holds no password.
type ConnectError struct {
	Where  string // host, port, user and database
	Cause  string
	Fix    string
	Waits  bool // time may mend it: the server is away, starting or full
	Source error
}

// Sentence says what failed and why, without the way out.
func (e *ConnectError) Sentence() string {
	return fmt.Sprintf("connect to PostgreSQL at %s: %s", e.Where, e.Cause)
}

func (e *ConnectError) Error() string {
	if e.Fix == "" {
		return e.Sentence()
	}
	return e.Sentence() + "; " + e.Fix
}

// Unwrap returns the driver's error.
func (e *ConnectError) Unwrap() error { return e.Source }

// Connect opens a connection. A failure to is a *ConnectError, or the context's own error when that ended first.
//
// Behind a pooler, statements prepared by name are lost, or meet those of others. A configuration that asks for them,
// as it does by default, gets a connection without them there.
func Connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := dial(ctx, config)
	if err != nil || config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return conn, err
	}
	var pid uint32
	if err := conn.QueryRow(ctx, backendSQL, pgx.QueryExecModeExec).Scan(&pid); err != nil {
		closeNow(conn)
		return nil, fmt.Errorf("begin a session with PostgreSQL: %w", err)
	}
	if pid == conn.PgConn().PID() {
		return conn, nil
	}
	closeNow(conn)
	return dial(ctx, withoutNames(config))
}

// connectOwn is Connect for a relay, which gives the session its own settings.
func connectOwn(ctx context.Context, config *pgx.ConnConfig) (conn *pgx.Conn, pooled bool, err error) {
	if conn, err = dial(ctx, config); err != nil {
		return nil, false, err
	}
	pooled, err = takeSession(ctx, conn)
	switch {
	case err != nil:
		closeNow(conn)
		return nil, false, err
	case !pooled || config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement:
		return conn, pooled, nil
	}
	closeNow(conn)
	conn, err = dial(ctx, withoutNames(config))
	return conn, true, err
}

// withoutNames keeps descriptions of statements instead of prepared ones, so that values still come in binary.
func withoutNames(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	return config
}

func dial(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, shareTime(ctx, config))
	if err == nil {
		return conn, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	e := &ConnectError{Source: err, Where: fmt.Sprintf("%s, user %s, database %s",
		strings.Join(addresses(config), " or "), config.User, cmp.Or(config.Database, config.User))}
	e.explain(ctx)
	return nil, e
}

// addresses lists the servers that a configuration names, each once. With and without TLS is one.
func addresses(config *pgx.ConnConfig) []string {
	all := []string{fmt.Sprintf("%s port %d", config.Host, config.Port)}
	for _, f := range config.Fallbacks {
		if next := fmt.Sprintf("%s port %d", f.Host, f.Port); !slices.Contains(all, next) {
			all = append(all, next)
		}
	}
	return all
}

// shareTime gives each of several servers its part of the time that is left, with some over for what follows: the first
// one may have vanished without a word, and the others are named for that very case.
func shareTime(ctx context.Context, config *pgx.ConnConfig) *pgx.ConnConfig {
	deadline, bounded := ctx.Deadline()
	servers := len(addresses(config))
	if !bounded || servers < 2 {
		return config
	}
	part := time.Until(deadline) / time.Duration(servers+1)
	if part <= 0 || config.ConnectTimeout != 0 && config.ConnectTimeout <= part {
		return config
	}
	config = config.Copy()
	config.ConnectTimeout = part
	return config
}

// explain turns the driver's error, which tells of every address tried, into one cause.
func (e *ConnectError) explain(ctx context.Context) {
	var (
		refusal   *pgconn.PgError
		lookup    *net.DNSError
		dial      *net.OpError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		err       = e.Source
	)
	switch {
	case errors.As(err, &refusal):
		e.Cause = refusal.Message
		switch {
		case refusal.Code == "28000":
			e.Fix = "check user and database, and what pg_hba.conf on the server says of them; " +
				"\"no encryption\" means that it wants TLS (sslmode=require)"
		case strings.HasPrefix(refusal.Code, "28"):
			e.Fix = "check user and password; in a URL the password's @ / # % : ? stand percent-encoded (@ is %40)"
		case refusal.Code == "3D000":
			e.Fix = "check the database's name at the end of DATABASE_URL, or create it"
		case strings.HasPrefix(refusal.Code, "22"), refusal.Code == "42704", refusal.Code == "42601":
			e.Fix = "correct the parameters at the end of DATABASE_URL, or PGOPTIONS"
		case refusal.Code == "53300":
			e.Fix, e.Waits = "raise max_connections, or end connections that nobody uses", true
		default:
			e.Waits = true
		}
	case errors.Is(err, pgconn.ErrReadOnlyConnection):
		e.Cause, e.Waits = "no server that answers takes writes", true
		e.Fix = "promote one, or correct the addresses; target_session_attrs in DATABASE_URL asks for one that does"
	case errors.As(err, &authority):
		e.Cause = "nobody that is trusted has signed the server's certificate"
		e.Fix = "name the authority by sslrootcert"
	case errors.As(err, &hostname):
		e.Cause = "the server's certificate is refused: " + hostname.Error()
		e.Fix = "use a host name that it holds, or have it made for this one"
	case errors.As(err, &invalid):
		e.Cause = "the server's certificate is refused: " + invalid.Error()
		e.Fix = "renew it, or set the clock of this machine"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		e.Cause = "the server does not speak TLS"
		e.Fix = "switch it on there (ssl = on), or use sslmode=disable where nobody can listen"
	case errors.As(err, &record):
		e.Cause, e.Fix = innermost(err), "check host and port: what answers there is no PostgreSQL"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Cause, e.Waits = "the connection was closed at once", true
		e.Fix = "check host and port: what answers there may be no PostgreSQL"
	case errors.As(err, &lookup):
		e.Cause, e.Fix, e.Waits = fmt.Sprintf("no host %s", lookup.Name), "check the host in DATABASE_URL", true
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		e.Cause, e.Fix, e.Waits = "no answer in time", "check host, port and firewall", true
	case errors.As(err, &dial) && dial.Addr != nil && dial.Addr.Network() == "unix":
		e.Cause, e.Waits = innermost(dial), true
		e.Fix = "set DATABASE_URL, such as postgres://user:password@host:5432/database, " +
			"or PGHOST and the other PG* variables"
	case errors.As(err, &dial):
		e.Cause, e.Fix, e.Waits = innermost(dial), "check that the server runs and listens there", true
	default:
		e.Cause, e.Fix, e.Waits = innermost(err), "check DATABASE_URL and the PG* variables", true
	}
}

// innermost returns the text at the bottom of an error's chain.
func innermost(err error) string {
	for {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err.Error()
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			list := e.Unwrap()
			if len(list) == 0 {
				return err.Error()
			}
			err = list[len(list)-1]
		default:
			return err.Error()
		}
	}
}
