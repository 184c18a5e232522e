// Package posthaste is the writing side of a transactional outbox for PostgreSQL and Kafka: it puts events into the
// outbox table inside the caller's own transaction. A relay (package relay, or the posthaste command) ships them.
//
// # What is guaranteed
//
// An event exists if and only if the transaction it was written in committed. The [Writer] opens nothing, commits
// nothing and keeps no connection: it runs one INSERT in the transaction it is handed, and its two methods take
// interfaces that a pool does not satisfy, so an event written outside a transaction does not compile.
//
// A call writes all of its events or none. Bad input is refused before PostgreSQL sees anything, so the transaction
// is still usable then; the refusals of all events come back in one [RefusedError] that names event and field. Ids are
// drawn in the order of the events given.
//
// An event id can be written once: the table's unique constraint guards it, and the second attempt is
// [ErrDuplicateEvent].
//
// Events of one key reach Kafka in the order of their ids as long as the transactions that write the key run one after
// the other. A row lock on the aggregate, taken before the event is written, sees to that; so does [Config.Strict]
// where there is no such row.
//
// # What is not promised
//
// PostgreSQL can take back a committed transaction whose event is already in Kafka: by a failover to an asynchronous
// standby that had not received it, or by a crash where the writer ran with synchronous_commit=off. Write events with
// synchronous_commit=on, and fail over to a synchronous standby, where that matters.
//
// The bytes of a payload are not kept. The column is jsonb: PostgreSQL reorders the keys, drops white space and prints
// numbers its own way (1e2 becomes 100), keeping their value exactly. A signature over the bytes written does not
// match what a consumer reads; sign the values of named fields, or carry the signed text as one JSON string.
// Repeated keys, of which jsonb would silently keep the last, are refused.
//
// # Technical events
//
// What is about the running of the system, such as a cache entry to drop, need not be in step with the database. A
// [Technical] sends it straight to Kafka, and refuses what claims to be a domain event.
//
// # Concurrency
//
// [Registry], [Writer] and [Technical] never change once made and are safe for concurrent use. A transaction is not:
// one call at a time for each.
package posthaste
