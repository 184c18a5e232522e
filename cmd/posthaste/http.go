package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"posthaste.dev/posthaste/relay"
)

// pages serves what a supervisor and a monitor ask of a relay. No request of theirs reaches PostgreSQL or Kafka.
type pages struct {
	listener net.Listener // nil: nothing is served
	server   *http.Server
}

// listen takes the address at once, so that a wrong one is told before the relay starts.
func listen(addr string, r *relay.Relay) (*pages, error) {
	if addr == "" {
		return &pages{}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, hinted{fmt.Errorf("listen on %s: %w", addr, innermostOf(err)),
			"choose another POSTHASTE_HTTP_ADDR, or an empty one to serve nothing"}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(r))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := r.Stats()
		if !s.Ready {
			http.Error(w, "not ready: "+s.Reason, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "ready: %d of %d lanes\n", s.Lanes, s.LanesTotal)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &pages{listener, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}}, nil
}

func innermostOf(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// addr is where the pages are, with the port that the system chose if it was to choose one; "" for nowhere.
func (p *pages) addr() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// run serves until the context ends.
func (p *pages) run(ctx context.Context) error {
	if p.listener == nil {
		return nil
	}
	stopped := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.server.Shutdown(bounded)
	})
	defer stopped()
	if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health and metrics: %w", err)
	}
	return nil
}
