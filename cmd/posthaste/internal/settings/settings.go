// Package settings is the one place that knows the settings of the posthaste command: where each may be given, its
// default and what it is for.
//
// A value is taken from the first of these that has it: flag, environment, the file .env in the working directory,
// default. Load reads all of them and lists everything that is wrong in one error; nothing is clamped, and a variable
// POSTHASTE_... that nobody knows is refused rather than ignored.
package settings

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// Config holds the settings, typed. Each field belongs to exactly one setting, but for those whose comment says more.
type Config struct {
	Database Database
	Log      Log
	Relay    Relay
	Kafka    Kafka
	HTTP     HTTP
}

// Database says where the outbox is.
type Database struct {
	URL    string          // secret
	Conn   *pgx.ConnConfig // from URL and the PG* variables
	Table  string          // as in SQL
	Schema string          // as in SQL
	Names  postgres.Names  // from Table and Schema
}

// Log says what is logged to standard error, and how.
type Log struct {
	Level  string
	Format string
}

// Relay says how the relay works. Names, units and ranges of Config are those of package relay.
type Relay struct {
	Config     relay.Config
	Settle     relay.SettleMode
	SettleSync bool // wait for the disk at each settle: without, a crash of PostgreSQL repeats the last events
	Lanes      int  // refuse to start where the database has another number; 0: take the database's
}

// Kafka says how to reach the brokers. Idempotence and acks=all are no settings.
type Kafka struct {
	Brokers  []string // host:port each
	TLS      bool
	CAFile   string // PEM; "" stands for the system's authorities
	SASL     string
	Username string
	Password string // secret
	ClientID string
}

// HTTP says where /livez, /readyz and /metrics are served.
type HTTP struct {
	Addr string // "" serves nothing
}

// A Group is what a command has use for. A command reads no others, so that a wrong broker list does not stop a
// migration.
type Group string

// The groups.
const (
	GroupDatabase Group = "database"
	GroupLog      Group = "log"
	GroupRelay    Group = "relay"
	GroupKafka    Group = "kafka"
	GroupHTTP     Group = "http"
)

// Setting is one setting, as text.
type Setting struct {
	Group   Group
	Env     string // its variable
	Flag    string // "" for secrets, which would show in the list of processes
	Key     string // its place in a file of settings
	Default string // as it would be given
	Unit    string
	Help    string // what it is for and why the default is what it is
	Secret  bool   // never shown; may also be given by a file that Env + "_FILE" names

	required bool
	empty    bool // an empty value means something; of the others it means that they are not set
	set      func(string) error
}

// table returns all settings, each bound to its field of c.
func table(c *Config) []Setting {
	r := &c.Relay.Config
	return []Setting{
		{
			Group: GroupDatabase, Env: "DATABASE_URL", Key: "database.url", Secret: true,
			Help: "PostgreSQL as a URL or as key=value pairs; what it leaves out comes from PGHOST, PGUSER and the other " +
				"PG* variables",
			set: text(&c.Database.URL),
		},
		{
			Group: GroupDatabase, Env: "POSTHASTE_TABLE", Flag: "table", Key: "database.table",
			Default: postgres.DefaultTable,
			Help:    "outbox table as in SQL: quoted where it holds capitals or signs",
			set:     text(&c.Database.Table),
		},
		{
			Group: GroupDatabase, Env: "POSTHASTE_SCHEMA", Flag: "schema", Key: "database.schema",
			Default: postgres.DefaultSchema,
			Help:    "schema of Posthaste's own tables, apart from the outbox so that rights can differ",
			set:     text(&c.Database.Schema),
		},

		{
			Group: GroupLog, Env: "POSTHASTE_LOG_LEVEL", Flag: "log-level", Key: "log.level", Default: "info",
			Help: "least level logged: debug, info, warn or error; debug writes a line an event",
			set:  choice(&c.Log.Level, "debug", "info", "warn", "error"),
		},
		{
			Group: GroupLog, Env: "POSTHASTE_LOG_FORMAT", Flag: "log-format", Key: "log.format", Default: "text",
			Help: "text for people, json for collectors",
			set:  choice(&c.Log.Format, "text", "json"),
		},

		{
			Group: GroupRelay, Env: "OUTBOX_RELAY_INTERVAL_SECONDS", Flag: "interval", Key: "relay.interval_seconds",
			Default: "0.5", Unit: "seconds",
			Help: "pause between polls while nothing comes; under load polls follow at once",
			set:  seconds(&r.Interval),
		},
		{
			Group: GroupRelay, Env: "OUTBOX_RELAY_BATCH_SIZE", Flag: "batch-size", Key: "relay.batch_size", Default: "50",
			Unit: "events",
			Help: "events a read while the relay keeps up",
			set:  positive(&r.Batch),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_BATCH_MAX", Flag: "batch-max", Key: "relay.batch_max", Default: "2000",
			Unit: "events",
			Help: "what a read grows to under backlog; equal to the batch size it never grows",
			set:  positive(&r.BatchMax),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_CLAIM", Flag: "claim", Key: "relay.claim",
			Default: string(relay.ClaimLanes),
			Help: "how relays share the work: lanes keeps the order of a key with any number of relays, skip-locked does " +
				"not",
			set: choice(&r.Claim, relay.ClaimLanes, relay.ClaimSkipLocked),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_SETTLE", Flag: "settle", Key: "relay.settle",
			Default: string(relay.SettleMark),
			Help:    "what becomes of a published row: mark keeps it, delete is cheaper and gives up replay",
			set:     choice(&c.Relay.Settle, relay.SettleMark, relay.SettleDelete),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_SETTLE_SYNC", Flag: "settle-sync", Key: "relay.settle_sync",
			Default: "off",
			Help:    "wait for the disk at each settle; off, a crash of PostgreSQL sends the last events again",
			set:     onOff(&c.Relay.SettleSync),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_ORDER", Flag: "order", Key: "relay.order",
			Default: string(relay.OrderKey),
			Help:    "key sends what is visible; strict waits for every open writer, so that a key is in id order always",
			set:     choice(&r.Order, relay.OrderKey, relay.OrderStrict),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_LANES", Flag: "lanes", Key: "relay.lanes", Unit: "lanes",
			Help: "refuse to start where the database has another number of lanes; not set, the database's number is taken",
			set:  lanes(&c.Relay.Lanes),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_LEASE", Flag: "lease", Key: "relay.lease", Default: "5s",
			Help: "silence after which other relays take a relay's lanes",
			set:  duration(&r.Lease),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_DRAIN_TIMEOUT", Flag: "drain-timeout", Key: "relay.drain_timeout",
			Default: "20s",
			Help:    "how long a stop waits for what is in flight; below the 30 s that Kubernetes gives",
			set:     duration(&r.DrainTimeout),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_CLAIM_TIMEOUT", Flag: "claim-timeout", Key: "relay.claim_timeout",
			Default: "10s",
			Help:    "longest that claim skip-locked holds its row locks",
			set:     duration(&r.ClaimTimeout),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_SWEEP_INTERVAL", Flag: "sweep-interval", Key: "relay.sweep_interval",
			Default: "5m",
			Help:    "pause between two reads of everything unpublished, which prove that nothing was passed over",
			set:     duration(&r.SweepInterval),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_MEMORY", Flag: "memory", Key: "relay.memory", Default: "16777216",
			Unit: "bytes",
			Help: "bound on all events read and not yet settled",
			set:  positive(&r.Memory),
		},

		{
			Group: GroupKafka, Env: "KAFKA_BROKERS", Flag: "brokers", Key: "kafka.brokers", required: true,
			Help: "brokers to begin with, host:port separated by commas",
			set:  brokers(&c.Kafka.Brokers),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_TLS", Flag: "kafka-tls", Key: "kafka.tls", Default: "off",
			Help: "speak TLS to the brokers",
			set:  onOff(&c.Kafka.TLS),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_CA_FILE", Flag: "kafka-ca-file", Key: "kafka.ca_file",
			Help: "PEM file of the authorities that sign the brokers' certificates; not set, the system's",
			set:  text(&c.Kafka.CAFile),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_SASL", Flag: "kafka-sasl", Key: "kafka.sasl", Default: "none",
			Help: "none, plain, scram-sha-256 or scram-sha-512",
			set:  choice(&c.Kafka.SASL, "none", "plain", "scram-sha-256", "scram-sha-512"),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_USERNAME", Flag: "kafka-username", Key: "kafka.username",
			Help: "user for SASL",
			set:  text(&c.Kafka.Username),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_PASSWORD", Key: "kafka.password", Secret: true,
			Help: "password for SASL",
			set:  text(&c.Kafka.Password),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_CLIENT_ID", Flag: "kafka-client-id", Key: "kafka.client_id",
			Default: "posthaste",
			Help:    "how the brokers' logs and quotas name this relay",
			set:     text(&c.Kafka.ClientID),
		},

		{
			Group: GroupHTTP, Env: "POSTHASTE_HTTP_ADDR", Flag: "http-addr", Key: "http.addr", Default: "127.0.0.1:9188",
			empty: true,
			Help:  "where /livez, /readyz and /metrics are served; empty: nowhere. The default answers this machine only",
			set:   address(&c.HTTP.Addr),
		},
	}
}

// All returns the settings of the groups, of all when none is given.
func All(groups ...Group) []Setting {
	return inGroups(table(new(Config)), groups)
}

// AddFlags defines the flags of the groups. Their values are read by Load.
func AddFlags(flags *pflag.FlagSet, groups ...Group) {
	for _, s := range All(groups...) {
		if s.Flag != "" {
			help := s.Help
			if s.Unit != "" {
				help += ", in " + s.Unit
			}
			flags.String(s.Flag, s.Default, help+" ["+s.Env+"]")
		}
	}
}

// SecretHelp tells of the settings of the groups that have no flag, since flags show in the list of processes.
func SecretHelp(groups ...Group) string {
	var b strings.Builder
	b.WriteString("From the environment or .env alone, or from a file that the same name with _FILE gives:\n")
	for _, s := range All(groups...) {
		if s.Secret {
			fmt.Fprintf(&b, "  %s: %s\n", s.Env, s.Help)
		}
	}
	return b.String()
}
