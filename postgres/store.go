package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// Config says which outbox a relay works on and how it settles.
type Config struct {
	// Conn is the database: what pgx.ParseConfig returns, or the ConnConfig of a pool's configuration. It is copied.
	Conn *pgx.ConnConfig
	// Renew, if given, is asked for the configuration again before a connection that is to replace one: a password or
	// an address may have changed meanwhile. While it fails, the last good one stands. It may be called concurrently.
	Renew func() (*pgx.ConnConfig, error)
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
	// CheckInterval is the pause after which a member looks again whether the outbox is still sound: half a minute by
	// default.
	CheckInterval time.Duration
	// Logger takes warnings about the outbox. slog.Default by default.
	Logger *slog.Logger
}

// Store is an outbox in PostgreSQL, as a relay works on it. It holds no connection itself.
type Store struct {
	cfg    Config
	opened atomic.Bool            // the outbox was found sound once
	found  atomic.Pointer[Outbox] // by the latest look while it was worked on; nil before the first

	mu     sync.Mutex
	conn   *pgx.ConnConfig
	told   map[string]bool        // warnings that were logged, while they stand
	failed string                 // why Config.Renew failed the last time
	bound  atomic.Pointer[string] // the Kafka cluster that answers, once it is known
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
	if cfg.CheckInterval == 0 {
		cfg.CheckInterval = 30 * time.Second
	}
	if cfg.Settle != relay.SettleMark && cfg.Settle != relay.SettleDelete {
		return nil, fmt.Errorf("POSTHASTE_RELAY_SETTLE=%s: want mark or delete", cfg.Settle)
	}
	conn, err := prepare(cfg.Conn)
	if err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, conn: conn, told: make(map[string]bool)}, nil
}

// prepare makes a configuration into that of a relay's connections.
func prepare(conn *pgx.ConnConfig) (*pgx.ConnConfig, error) {
	conn = conn.Copy()
	if conn.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil, errors.New("DATABASE_URL: default_query_exec_mode=simple_protocol can't carry a relay; " +
			"behind a pooler without prepared statements use default_query_exec_mode=exec")
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	// A peer that vanished without a word is found within 15 s, not after the kernel's two hours.
	dialer := &net.Dialer{Control: abandonAfter(15 * time.Second), KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2}}
	conn.DialFunc = dialer.DialContext
	setDefaultParam(conn, "application_name", "posthaste relay")
	conn.RuntimeParams["timezone"] = "UTC"
	conn.RuntimeParams["datestyle"] = "ISO, YMD"
	return conn, nil
}

const connectTimeout = 5 * time.Second

func setDefaultParam(c *pgx.ConnConfig, name, value string) {
	if c.RuntimeParams[name] == "" {
		c.RuntimeParams[name] = value
	}
}

// Open connects and checks the outbox.
func (s *Store) Open(ctx context.Context) (relay.Session, error) {
	known := s.found.Load()
	conn, outbox, pooled, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	session := newSession(conn, outbox, pooled, s.cfg)
	if !pooled {
		session.aside = &aside{local: session.local, settle: session.settle, log: s.cfg.Logger, idle: asideIdle,
			open: func(ctx context.Context) (*pgx.Conn, error) { return s.openAside(ctx, outbox) }}
	}
	session.outdated = func() bool {
		found := s.found.Load()
		if found == known {
			return false
		}
		known = found
		return !found.sameMake(outbox)
	}
	return session, nil
}

// errChanged ends what works by facts that are so no more.
var errChanged = errors.New("the outbox table was changed; connecting anew, to work on it as it is now")

// connect returns a connection on which the outbox was found sound. What is wrong is permanent only until that was so
// once: afterwards somebody is changing it, a password as well as a table, and the relay waits until they have done.
func (s *Store) connect(ctx context.Context) (conn *pgx.Conn, outbox *Outbox, pooled bool, err error) {
	conn, pooled, err = connectOwn(ctx, s.target())
	if err != nil {
		if refused, ok := errors.AsType[*ConnectError](err); ok && !refused.Waits && !s.opened.Load() {
			err = &relay.Permanent{Err: err}
		}
		return nil, nil, false, err
	}
	outbox, err = Inspect(ctx, conn, s.cfg.Names, s.rights()...)
	if err == nil {
		err = s.checkLanes(outbox)
	}
	if err == nil {
		err = s.checkCluster(outbox)
	}
	if err != nil {
		closeNow(conn)
		if bad, ok := errors.AsType[*SchemaError](err); ok && !onlyReadOnly(bad) && !s.opened.Load() {
			err = &relay.Permanent{Err: err}
		}
		return nil, nil, false, err
	}
	s.opened.Store(true)
	s.warn(outbox.Warnings)
	return conn, outbox, pooled, nil
}

// target returns the configuration for the next connection.
func (s *Store) target() *pgx.ConnConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Renew == nil || !s.opened.Load() {
		return s.conn
	}
	given, err := s.cfg.Renew()
	if err == nil {
		given, err = prepare(given)
	}
	switch {
	case err == nil:
		s.conn, s.failed = given, ""
	case err.Error() != s.failed:
		s.failed = err.Error()
		s.cfg.Logger.Warn("could not read again how to reach PostgreSQL, going on as before", "reason", s.failed)
	}
	return s.conn
}

func (s *Store) rights() []Right {
	if s.cfg.Settle == relay.SettleDelete {
		return []Right{RightUpdate, RightDelete}
	}
	return []Right{RightUpdate}
}

// warn logs what was not so at the last look.
func (s *Store) warn(warnings []Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stand := make(map[string]bool, len(warnings))
	for _, w := range warnings {
		// The numbers in it move on while it stands.
		key := strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, w.Cause)
		if stand[key] = true; !s.told[key] {
			s.cfg.Logger.Warn("outbox works, though not at its best", "cause", w.Cause, "fix", w.Fix)
		}
	}
	s.told = stand
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
