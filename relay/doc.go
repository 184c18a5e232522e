// Package relay ships the events of an outbox table to Kafka, in order, and settles them once they are acknowledged.
//
// It holds the decisions; what it needs of PostgreSQL and Kafka stands in small interfaces that packages postgres and
// kafka implement:
//
//	store, err := postgres.NewStore(postgres.Config{Conn: conn, Names: names})
//	producer, err := kafka.NewProducer(kafka.Config{Brokers: brokers})
//	r, err := relay.New(store, producer, relay.Config{})
//	err = r.Run(ctx) // until ctx ends
//
// # Guarantees
//
// Nothing lost: an event is settled only after Kafka acknowledged it with acks=all, and every committed event is read,
// however late it commits.
//
// Ordered, per topic and partition key, with any number of relays, through kills, stalls, hand-overs and retries: first
// deliveries come in id order when the writers of a key are serialised, as by a row lock. Otherwise in id order among
// the events visible at one read, and an event that becomes visible after a later one was sent follows it. With
// OrderStrict always in id order.
//
// Few duplicates: only what was handed to Kafka and not settled at a crash or a stall may be sent twice, at most two
// chunks. A clean stop and a hand-over between relays send nothing twice.
//
// Isolated: an event that Kafka refuses stops its own key, a topic that is missing or forbidden stops itself;
// everything else flows. An outage is waited for and spends nothing.
//
// Bounded: memory does not grow with the backlog, and no transaction or lock is held while Kafka works.
//
// # Not promised
//
// ClaimSkipLocked keeps no order with several relays. A failover of PostgreSQL to an asynchronous standby repeats the
// events whose marks were lost with it, and can take back a transaction whose events were published. An unclean leader
// election in Kafka loses acknowledged records. For now a refused event holds its key in memory: another relay that
// takes the key over meets the refusal for itself.
//
// # Concurrency
//
// A Relay runs in one goroutine that owns all state, and gives each server at most one operation at a time; Stats may
// be called from anywhere. No goroutine outlives Run.
package relay
