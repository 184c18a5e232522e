package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
)

// connectTimeout bounds how long a command that does one thing waits for the server.
const connectTimeout = 10 * time.Second

// connect opens one connection for a command that does one thing and ends.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return postgres.Connect(bounded, config)
}

// disconnect ends a connection, also when the context has ended.
func disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
