package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// Config says which outbox a relay works on and how it settles.
type Config struct {
	// Conn is the database: what pgx.ParseConfig returns, or the ConnConfig of a pool's configuration. It is copied.
	Conn *pgx.ConnConfig
	// Names are those of the outbox table and the schema of the side tables.
	Names Names
	// Settle is relay.SettleMark by default.
	Settle relay.SettleMode
	// SettleSync makes a settle wait for its WAL to reach the disk. Off by default: a lost mark is a duplicate,
	// never a loss.
	SettleSync bool
	// Lanes is the number of lanes that the database must have, 0 for whichever it has.
	Lanes int
	// Member names this process among the relays, for people; Version is its program's.
	Member, Version string
	// Logger takes warnings about the outbox. slog.Default by default.
	Logger *slog.Logger
}

// Store is an outbox in PostgreSQL, as a relay works on it. It holds no connection itself.
type Store struct {
	cfg    Config
	conn   *pgx.ConnConfig
	warned atomic.Bool
	opened atomic.Bool
}

var _ relay.Store = (*Store)(nil)

// NewStore reads the configuration; it does not connect.
func NewStore(cfg Config) (*Store, error) {
	if cfg.Settle == "" {
		cfg.Settle = relay.SettleMark
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Settle != relay.SettleMark && cfg.Settle != relay.SettleDelete {
		return nil, fmt.Errorf("POSTHASTE_RELAY_SETTLE=%s: want mark or delete", cfg.Settle)
	}
	conn := cfg.Conn.Copy()
	if conn.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil, errors.New("DATABASE_URL: default_query_exec_mode=simple_protocol can't carry a relay; " +
			"behind a pooler without prepared statements use default_query_exec_mode=exec")
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	// A peer that vanished without a word is found within 15 s, not after the kernel's two hours.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2}}
	conn.DialFunc = dialer.DialContext
	setDefaultParam(conn, "application_name", "posthaste relay")
	conn.RuntimeParams["timezone"] = "UTC"
	conn.RuntimeParams["datestyle"] = "ISO, YMD"
	return &Store{cfg: cfg, conn: conn}, nil
}

const connectTimeout = 5 * time.Second

func setDefaultParam(c *pgx.ConnConfig, name, value string) {
	if c.RuntimeParams[name] == "" {
		c.RuntimeParams[name] = value
	}
}

// Open connects and checks the outbox.
func (s *Store) Open(ctx context.Context) (relay.Session, error) {
	conn, outbox, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return newSession(conn, outbox, s.cfg), nil
}

// connect returns a connection on which the outbox was found sound.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, *Outbox, error) {
	conn, err := Connect(ctx, s.conn)
	if err != nil {
		// A refusal is permanent unless this relay has worked before: then somebody may be changing the password, or
		// the server is not itself yet.
		if refused, ok := errors.AsType[*ConnectError](err); ok && !refused.Waits && !s.opened.Load() {
			return nil, nil, &relay.Permanent{Err: err}
		}
		return nil, nil, err
	}
	right := RightUpdate
	if s.cfg.Settle == relay.SettleDelete {
		right = RightDelete
	}
	outbox, err := Inspect(ctx, conn, s.cfg.Names, RightUpdate, right)
	if err == nil {
		err = s.checkLanes(outbox)
	}
	if err != nil {
		closeNow(conn)
		if bad, ok := errors.AsType[*SchemaError](err); ok && !onlyReadOnly(bad) {
			return nil, nil, &relay.Permanent{Err: err}
		}
		return nil, nil, err
	}
	s.opened.Store(true)
	if !s.warned.Swap(true) {
		for _, w := range outbox.Warnings {
			s.cfg.Logger.Warn("outbox works, though not at its best", "cause", w.Cause, "fix", w.Fix)
		}
	}
	return conn, outbox, nil
}

// onlyReadOnly tells whether time may mend the outbox: a standby can become the primary.
func onlyReadOnly(e *SchemaError) bool {
	return !slices.ContainsFunc(e.Problems, func(p Problem) bool { return !errors.Is(p, ErrReadOnly) })
}

func (s *Store) checkLanes(o *Outbox) error {
	if s.cfg.Lanes == 0 || s.cfg.Lanes == o.Lanes || s.cfg.Lanes == o.NextLanes {
		return nil
	}
	return &relay.Permanent{Err: Problem{ErrLanes,
		fmt.Sprintf("POSTHASTE_RELAY_LANES is %d, but outbox %s has %d lanes", s.cfg.Lanes, o.Names.Table, o.Lanes),
		"leave it out to use what the database says, or run: " +
			o.Names.command(fmt.Sprintf("lanes set %d", s.cfg.Lanes))}}
}

// closeNow gives a connection up without waiting for the server.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = conn.Close(ctx)
}
