package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ClaimMode says how relays share the rows of one outbox.
type ClaimMode string

// SettleMode says what becomes of a row whose event is acknowledged.
type SettleMode string

// Order says what a read waits for.
type Order string

// The modes. The first of each is the default.
const (
	// ClaimLanes gives every relay its own shard of the keys: order per key with any number of relays, and nothing is
	// locked while Kafka works.
	ClaimLanes ClaimMode = "lanes"
	// ClaimSkipLocked locks rows from claim to settle, with FOR UPDATE SKIP LOCKED. With more than one relay it keeps
	// no order, and it holds row locks and a snapshot while Kafka is slow. It may run beside other relays that do the
	// same.
	ClaimSkipLocked ClaimMode = "skip-locked"

	// SettleMark sets published_at.
	SettleMark SettleMode = "mark"
	// SettleDelete deletes the row: less work for PostgreSQL, but the event can't be replayed and its event_id no
	// longer guards against a second write.
	SettleDelete SettleMode = "delete"

	// OrderKey sends the events of a key in the order of their ids as one read sees them.
	OrderKey Order = "key"
	// OrderStrict reads only ids below which nothing can appear any more. An event then waits for the writers that are
	// open at the relay's next look, and for those before it.
	OrderStrict Order = "strict"
)

// Config is the behaviour of a Relay. The zero value of a field stands for its default; nothing is clamped.
type Config struct {
	// Claim is ClaimLanes by default.
	Claim ClaimMode
	// Order is OrderKey by default. OrderStrict needs ClaimLanes.
	Order Order

	// Interval is the pause between two polls while nothing comes. Default 0.5 s. While events came within the last
	// second it is 2 to 10 ms, or Interval where that is shorter.
	Interval time.Duration
	// Batch is how many rows a read takes while the relay keeps up. Default 50.
	Batch int
	// BatchMax is what the batch grows to under backlog, and the largest chunk that is in flight. Default 2,000: below
	// it the cost of a read and a settle a row still falls, above it the time to the first acknowledgement grows.
	BatchMax int
	// Memory bounds the bytes of all events that are read and not settled. Default 16 MiB. One event larger than the
	// bound is still taken, alone.
	Memory int

	// OnRefused says what waits with an event that Kafka refuses for itself. HoldKey by default.
	OnRefused RefusedPolicy

	// Topics are settings for some of the topics; see TopicRule. Up to 31 rules.
	Topics []TopicRule

	// Lease is how long a member may be silent before others take its lanes. Default 5 s: over the pauses of a busy
	// machine, under the patience of a person. A relay that had no successful beat for half of it stops sending.
	Lease time.Duration
	// BeatInterval is the pause between two beats. Default 1 s, at most a quarter of Lease.
	BeatInterval time.Duration
	// SweepInterval is the longest pause between two reads from the beginning of the table. Default 5 min. It is
	// shorter, down to a second, where such a read takes less than a part in 200 of it.
	SweepInterval time.Duration
	// ClaimTimeout bounds how long ClaimSkipLocked holds row locks. Default 10 s.
	ClaimTimeout time.Duration
	// DrainTimeout is how long a stop waits for the chunk in flight. Default 20 s, below the 30 s that Kubernetes
	// gives.
	DrainTimeout time.Duration

	// Logger is slog.Default by default.
	Logger *slog.Logger
}

// WithDefaults returns the configuration with every zero field replaced by its default.
func (c Config) WithDefaults() Config {
	setDefault(&c.Claim, ClaimLanes)
	setDefault(&c.Order, OrderKey)
	setDefault(&c.OnRefused, HoldKey)
	setDefault(&c.Interval, 500*time.Millisecond)
	setDefault(&c.Batch, 50)
	setDefault(&c.BatchMax, max(2000, c.Batch))
	setDefault(&c.Memory, 16<<20)
	setDefault(&c.Lease, 5*time.Second)
	setDefault(&c.BeatInterval, min(time.Second, c.Lease/4))
	setDefault(&c.SweepInterval, 5*time.Minute)
	setDefault(&c.ClaimTimeout, 10*time.Second)
	setDefault(&c.DrainTimeout, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate names every value that the relay can't work with, in one error. It expects the defaults to be filled in.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, setting string, value any, want string) {
		if bad {
			errs = append(errs, fmt.Errorf("%s=%v: want %s", setting, value, want))
		}
	}
	refuse(c.Claim != ClaimLanes && c.Claim != ClaimSkipLocked, "POSTHASTE_RELAY_CLAIM", c.Claim,
		"lanes or skip-locked")
	refuse(c.Order != OrderKey && c.Order != OrderStrict, "POSTHASTE_RELAY_ORDER", c.Order, "key or strict")
	refuse(c.Order == OrderStrict && c.Claim == ClaimSkipLocked, "POSTHASTE_RELAY_ORDER", c.Order,
		"key with POSTHASTE_RELAY_CLAIM=skip-locked, which keeps no order")
	refuse(!c.OnRefused.known(), "POSTHASTE_RELAY_ON_REFUSED", c.OnRefused, "hold-key, hold-aggregate or skip")
	refuse(c.Interval < time.Millisecond || c.Interval > time.Hour, "OUTBOX_RELAY_INTERVAL_SECONDS",
		c.Interval.Seconds(), "0.001 to 3600")
	refuse(c.Batch < 1 || c.Batch > 10_000, "OUTBOX_RELAY_BATCH_SIZE", c.Batch, "1 to 10000")
	refuse(c.BatchMax < c.Batch || c.BatchMax > 10_000, "POSTHASTE_RELAY_BATCH_MAX", c.BatchMax,
		fmt.Sprintf("OUTBOX_RELAY_BATCH_SIZE (%d) to 10000", c.Batch))
	refuse(c.Memory < 1<<20 || c.Memory > 4<<30, "POSTHASTE_RELAY_MEMORY", c.Memory,
		"1048576 (1 MiB) to 4294967296 bytes")
	refuse(c.Lease < 2*time.Second || c.Lease > 5*time.Minute, "POSTHASTE_RELAY_LEASE", c.Lease, "2s to 5m")
	refuse(c.BeatInterval <= 0 || c.BeatInterval > c.Lease/4, "BeatInterval", c.BeatInterval,
		fmt.Sprintf("up to a quarter of POSTHASTE_RELAY_LEASE (%v)", c.Lease))
	refuse(c.SweepInterval < time.Second, "POSTHASTE_RELAY_SWEEP_INTERVAL", c.SweepInterval, "1s or more")
	refuse(c.ClaimTimeout < time.Second || c.ClaimTimeout > 10*time.Minute, "POSTHASTE_RELAY_CLAIM_TIMEOUT",
		c.ClaimTimeout, "1s to 10m")
	refuse(c.DrainTimeout < time.Second || c.DrainTimeout > 10*time.Minute, "POSTHASTE_RELAY_DRAIN_TIMEOUT",
		c.DrainTimeout, "1s to 10m")
	return errors.Join(append(errs, c.validateTopics()...)...)
}

// validateTopics names every rule that can't be kept, by its pattern.
func (c Config) validateTopics() (errs []error) {
	refuse := func(r TopicRule, format string, args ...any) {
		errs = append(errs, fmt.Errorf("POSTHASTE_TOPICS: rule %q: %s", r.Match, fmt.Sprintf(format, args...)))
	}
	if len(c.Topics) > maxRules {
		errs = append(errs, fmt.Errorf("POSTHASTE_TOPICS: %d rules, want at most %d", len(c.Topics), maxRules))
	}
	for i, r := range c.Topics {
		if err := r.Match.Check(); err != nil {
			refuse(r, "%v", err)
		}
		for _, before := range c.Topics[:i] {
			if before.Match.Covers(r.Match) {
				refuse(r, "it never counts, since the rule %q before it picks all of its topics", before.Match)
				break
			}
		}
		if r.Interval != 0 && (r.Interval < time.Millisecond || r.Interval > time.Hour) {
			refuse(r, "interval %v: want 1ms to 1h", r.Interval)
		}
		if r.OnRefused != "" && !r.OnRefused.known() {
			refuse(r, "refused %q: want hold-key, hold-aggregate or skip", string(r.OnRefused))
		}
		if r.Batch != 0 && (r.Batch < 1 || r.Batch > c.BatchMax) {
			refuse(r, "batch %d: want 1 to POSTHASTE_RELAY_BATCH_MAX (%d)", r.Batch, c.BatchMax)
		}
	}
	return errs
}
