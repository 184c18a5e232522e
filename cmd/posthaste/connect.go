package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/kafka"
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

// reachedBy is the Kafka of the settings.
func reachedBy(k settings.Kafka) kafka.Config {
	return kafka.Config{Brokers: k.Brokers, ClientID: k.ClientID, TLS: k.TLS, CAFile: k.CAFile, SASL: k.SASL,
		Username: k.Username, Password: k.Password}
}

// disconnect ends a connection, also when the context has ended.
func disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
