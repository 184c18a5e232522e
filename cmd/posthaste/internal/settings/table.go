package settings

import (
	"slices"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// table returns all settings, each bound to its field of c.
func table(c *Config) []Setting {
	return slices.Concat(databaseTable(&c.Database), relayTable(&c.Relay), kafkaTable(&c.Kafka), processTable(c))
}

func databaseTable(d *Database) []Setting {
	return []Setting{
		{
			Group: GroupDatabase, Env: "DATABASE_URL", Key: "database.url", Secret: true,
			Example: "postgres://app@db:5432/orders", elsewhere: "PG* variables",
			Help: "PostgreSQL as a URL or as key=value pairs; what it leaves out comes from PGHOST, PGUSER and the " +
				"other PG* variables",
			Why:   "the name that most services and platforms already use",
			value: databaseURL(d),
		},
		{
			Group: GroupDatabase, Env: "POSTHASTE_TABLE", Flag: "table", Key: "database.table",
			Default: postgres.DefaultTable,
			Help:    "outbox table as in SQL: quoted where it holds capitals or signs",
			Why:     "the table that migrate makes; one that you have is adopted under its own name",
			value:   text(&d.Table),
		},
		{
			Group: GroupDatabase, Env: "POSTHASTE_SCHEMA", Flag: "schema", Key: "database.schema",
			Default: postgres.DefaultSchema,
			Help:    "schema of Posthaste's own tables",
			Why:     "apart from the outbox, so that rights can differ",
			value:   text(&d.Schema),
		},
		{
			Group: GroupDatabase, Env: "POSTHASTE_COLUMNS", Flag: "columns", Key: "database.columns",
			Example: "event_id=uuid,payload=body,created_at=",
			Help: "other names of the table's columns, as in SQL; nothing after the equals sign: the table has no " +
				"such column",
			Why:   "give it for a table that you have; posthaste migrate status says which columns it misses",
			value: columns(&d.Columns),
		},
	}
}

func relayTable(r *Relay) []Setting {
	c := &r.Config
	return []Setting{
		{
			Group: GroupRelay, Env: "OUTBOX_RELAY_INTERVAL_SECONDS", Flag: "interval", Key: "relay.interval_seconds",
			Default: "0.5", Unit: "seconds",
			Range: "0.001 to 3600",
			Help:  "pause between polls while nothing comes; under load polls follow at once",
			Why:   "a handful of cheap queries a second; it bounds the latency of the first event after a silence",
			value: seconds(&c.Interval),
		},
		{
			Group: GroupRelay, Env: "OUTBOX_RELAY_BATCH_SIZE", Flag: "batch-size",
			Key: "relay.batch_size", Default: "50",
			Unit:  "events",
			Range: "1 to 10000",
			Help:  "events a read while the relay keeps up",
			Why:   "small reads keep the latency low while there is no backlog",
			value: positive(&c.Batch),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_BATCH_MAX", Flag: "batch-max",
			Key: "relay.batch_max", Default: "2000",
			Unit:  "events",
			Range: "OUTBOX_RELAY_BATCH_SIZE to 10000",
			Help:  "what a read grows to under backlog; equal to the batch size it never grows",
			Why: "below it the cost of an event still falls, above it the time to the first acknowledgement grows; " +
				"at most two such chunks are sent twice after a crash",
			value: positive(&c.BatchMax),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_CLAIM", Flag: "claim", Key: "relay.claim",
			Default: string(relay.ClaimLanes),
			Help: "how relays share the work: lanes keeps the order of a key with any number of relays, skip-locked " +
				"does not",
			Why:   "order is what an outbox is for; skip-locked runs beside hand-written relays while you move over",
			value: choice(&c.Claim, relay.ClaimLanes, relay.ClaimSkipLocked),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_SETTLE", Flag: "settle", Key: "relay.settle",
			Default: string(relay.SettleMark),
			Help:    "what becomes of a published row: mark keeps it, delete is cheaper and gives up replay",
			Why:     "a kept row can be looked at, and its event_id goes on guarding against a second write",
			value:   choice(&r.Settle, relay.SettleMark, relay.SettleDelete),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_SETTLE_SYNC", Flag: "settle-sync", Key: "relay.settle_sync",
			Default: "off",
			Help:    "wait for the disk at each settle; off, a crash of PostgreSQL sends the last events again",
			Why:     "a lost mark is a duplicate and never a loss, and waiting costs a disk flush a chunk",
			value:   onOff(&r.SettleSync),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_ORDER", Flag: "order", Key: "relay.order",
			Default: string(relay.OrderKey),
			Help: "key sends what is visible; strict waits for every open writer, so that a key is in id order " +
				"always",
			Why: "writers of a key that a row lock serialises are in order already; strict costs the latency of the " +
				"longest writer",
			value: choice(&c.Order, relay.OrderKey, relay.OrderStrict),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_LANES", Flag: "lanes",
			Key: "relay.lanes", Unit: "lanes", Example: "64",
			Help: "refuse to start where the database has another number of lanes; not set, the database's number is " +
				"taken",
			Why:   "the number stands in the database, so that relays can't disagree",
			value: lanes(&r.Lanes),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_LEASE", Flag: "lease", Key: "relay.lease", Default: "5s",
			Range: "2s to 5m",
			Help:  "silence after which other relays take a relay's lanes",
			Why: "over the pauses of a busy machine, under the patience of a person; a process that died is noticed " +
				"at once",
			value: duration(&c.Lease),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_DRAIN_TIMEOUT", Flag: "drain-timeout", Key: "relay.drain_timeout",
			Default: "20s",
			Range:   "1s to 10m",
			Help:    "how long a stop waits for what is in flight",
			Why:     "below the 30 s that Kubernetes gives before it kills",
			value:   duration(&c.DrainTimeout),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_CLAIM_TIMEOUT", Flag: "claim-timeout", Key: "relay.claim_timeout",
			Default: "10s",
			Range:   "1s to 10m",
			Help:    "longest that claim skip-locked holds its row locks",
			Why:     "locks that are held while Kafka is slow keep vacuum and schema changes waiting",
			value:   duration(&c.ClaimTimeout),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_SWEEP_INTERVAL", Flag: "sweep-interval",
			Key:     "relay.sweep_interval",
			Default: "5m",
			Range:   "1s or more",
			Help: "longest pause between two reads of everything unpublished, which find what came in below where " +
				"reads begin; it is shorter, down to 1s, where such a read takes less than a part in 200 of it",
			Why: "it finds only ids given by hand and what a crash of PostgreSQL took back, and walks over every row " +
				"that waits",
			value: duration(&c.SweepInterval),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_MEMORY", Flag: "memory", Key: "relay.memory", Default: "16777216",
			Unit:  "bytes",
			Range: "1048576 (1 MiB) to 4294967296 bytes",
			Help:  "bound on all events read and not yet settled",
			Why:   "two full chunks of events of some kilobytes; an event larger than the bound goes alone",
			value: positive(&c.Memory),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_ON_REFUSED", Flag: "on-refused", Key: "relay.on_refused",
			Default: "hold-key",
			Help:    "what waits with an event that Kafka refuses, until an operator has decided (posthaste parked)",
			Why: "hold-key keeps the order of the key in its topic, hold-aggregate that of the aggregate in all " +
				"topics; skip lets all else flow and gives the order of the key up",
			value: refusedPolicy(&c.OnRefused),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_TOPICS", Flag: "topics", Key: "topics",
			Example: "order-service.*: interval=0.1; analytics.*: interval=5 batch=500 refused=skip",
			Help: "interval (in seconds), batch size and policy for refused events of their own for topics by " +
				"pattern, where * stands for any run of signs; the first pattern that matches counts",
			Why:   "critical flows want a short pause between polls, analytics a long one",
			value: topics(&c.Topics),
		},
		{
			Group: GroupRelay, Env: "POSTHASTE_RELAY_GROUP", Flag: "group", Key: "relay.group", Example: "payments",
			Help: "name of the group of topics that this relay serves, as posthaste groups set it; empty: all topics " +
				"that no group has",
			Why:   "one kind of relay is enough until some topics must not wait for others",
			value: text(&r.Group),
		},
	}
}

func kafkaTable(k *Kafka) []Setting {
	return []Setting{
		{
			Group: GroupKafka, Env: "KAFKA_BROKERS", Flag: "brokers", Key: "kafka.brokers", required: true,
			Example: "kafka-1:9092, kafka-2:9092",
			Help:    "brokers to begin with, host:port separated by commas",
			Why:     "any one that answers tells of all others; two or three let one be down at the start",
			value:   brokers(&k.Brokers),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_TLS", Flag: "kafka-tls", Key: "kafka.tls", Default: "off",
			Help:  "speak TLS to the brokers",
			Why:   "Kafka's own default listener is plain; turn it on everywhere but on your own machine",
			value: onOff(&k.TLS),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_CA_FILE", Flag: "kafka-ca-file", Key: "kafka.ca_file",
			Example: "/etc/kafka/ca.pem",
			Help:    "PEM file of the authorities that sign the brokers' certificates; not set, the system's",
			Why:     "for brokers whose certificates a company signs itself",
			value:   text(&k.CAFile),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_SASL", Flag: "kafka-sasl", Key: "kafka.sasl", Default: "none",
			Help:  "how to log in to the brokers: none, plain, scram-sha-256 or scram-sha-512",
			Why:   "Kafka's own default listener asks for no login; plain sends the password as it is, so give it TLS",
			value: choice(&k.SASL, "none", "plain", "scram-sha-256", "scram-sha-512"),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_USERNAME", Flag: "kafka-username", Key: "kafka.username",
			Example: "orders",
			Help:    "user for SASL",
			Why:     "needed as soon as a mechanism is chosen; one user a service keeps rights and quotas apart",
			value:   text(&k.Username),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_PASSWORD", Key: "kafka.password", Secret: true, Example: "sesame",
			Help:  "password for SASL",
			Why:   "needed as soon as a mechanism is chosen",
			value: secret(&k.Password),
		},
		{
			Group: GroupKafka, Env: "POSTHASTE_KAFKA_CLIENT_ID", Flag: "kafka-client-id", Key: "kafka.client_id",
			Default: "posthaste",
			Help:    "how the brokers' logs and quotas name this relay",
			Why:     "tells relays from other clients; give each service its own where quotas matter",
			value:   text(&k.ClientID),
		},
	}
}

func processTable(c *Config) []Setting {
	return []Setting{
		{
			Group: GroupHTTP, Env: "POSTHASTE_HTTP_ADDR", Flag: "http-addr",
			Key: "http.addr", Default: "127.0.0.1:9188",
			empty: true,
			Help: "where /livez, /readyz and /metrics are served, host:port or :port; empty: nowhere; port 0: a " +
				"free one, which the log tells",
			Why:   "answers this machine only; in a container give :9188",
			value: address(&c.HTTP.Addr),
		},
		{
			Group: GroupLog, Env: "POSTHASTE_LOG_LEVEL", Flag: "log-level", Key: "log.level", Default: "info",
			Help:  "least level logged: debug, info, warn or error",
			Why:   "debug writes a line an event",
			value: choice(&c.Log.Level, "debug", "info", "warn", "error"),
		},
		{
			Group: GroupLog, Env: "POSTHASTE_LOG_FORMAT", Flag: "log-format", Key: "log.format", Default: "text",
			Help:  "text for people, json for collectors",
			Why:   "the first who reads it is a person",
			value: choice(&c.Log.Format, "text", "json"),
		},
	}
}
