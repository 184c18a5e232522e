package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectTimeout bounds how long a command that does one thing waits for the server.
const connectTimeout = 10 * time.Second

// connect opens one connection for a command that does one thing and ends. The error says what to look at.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(bounded, config)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	where := fmt.Sprintf("connect to PostgreSQL at %s port %d, user %s, database %s", config.Host, config.Port, config.User, config.Database)
	cause, hint := explainConnect(bounded, err)
	return nil, hinted{fmt.Errorf("%s: %s", where, cause), hint}
}

// explainConnect turns the driver's error, which tells of every address tried, into one cause.
func explainConnect(ctx context.Context, err error) (cause, hint string) {
	var (
		refusal   *pgconn.PgError
		lookup    *net.DNSError
		dial      *net.OpError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &refusal) && refusal.Code[:2] == "28":
		return refusal.Message, "check user and password; in a URL the password's @ / # % : ? stand percent-encoded (@ is %40)"
	case errors.As(err, &refusal) && refusal.Code == "3D000":
		return refusal.Message, "check the database's name at the end of DATABASE_URL, or create it"
	case errors.As(err, &refusal) && refusal.Code == "53300":
		return refusal.Message, "raise max_connections, or end connections that nobody uses"
	case errors.As(err, &refusal):
		return refusal.Message, ""
	case errors.As(err, &lookup):
		return fmt.Sprintf("no host %s", lookup.Name), "check the host in DATABASE_URL"
	case errors.As(err, &authority), errors.As(err, &hostname):
		return innermost(err), "check sslrootcert and the host's name, which the certificate must hold"
	case errors.As(err, &record):
		return innermost(err), "check the port, and whether the server speaks TLS (sslmode)"
	case ctx.Err() != nil:
		return fmt.Sprintf("no answer within %v", connectTimeout), "check host, port and firewall"
	case errors.As(err, &dial):
		return innermost(dial), "check that the server runs and listens there"
	}
	return innermost(err), "check DATABASE_URL and the PG* variables"
}

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
