package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste/relay"
)

func handler(orders *orders, pool *pgxpool.Pool, shipper *relay.Relay, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil {
			http.Error(w, "want an order such as {\"id\": \"o-1\", \"total\": \"19.90\"}: "+err.Error(),
				http.StatusBadRequest)
			return
		}
		err := orders.place(r.Context(), o)
		var refused *refusedOrder
		switch {
		case errors.As(err, &refused):
			http.Error(w, refused.Error(), refused.status)
		case err != nil:
			// The caller learns nothing of the inside.
			logger.ErrorContext(r.Context(), "order not placed", "order", o.ID, "error", err)
			http.Error(w, "the order was not placed, try again", http.StatusServiceUnavailable)
		default:
			logger.InfoContext(r.Context(), "order placed", "order", o.ID)
			w.WriteHeader(http.StatusCreated)
		}
	})
	// Healthy is who can take orders, and that takes PostgreSQL alone: events wait in the outbox while Kafka is away.
	// So the relay's state is told and does not count.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := pool.Ping(ctx); err != nil {
			http.Error(w, "PostgreSQL does not answer", http.StatusServiceUnavailable)
			return
		}
		text := "ok, relay ready\n"
		if s := shipper.Stats(); !s.Ready {
			text = "ok, relay not ready: " + s.Reason + "\n"
		}
		_, _ = io.WriteString(w, text)
	})
	return mux
}
