// Package postgres is all SQL of the relay: the migrations of the outbox and the side tables, the look at an outbox
// before work begins, and the reads, settles and memberships of a running relay.
//
// Every statement names its objects in full, so the session's search_path never matters, and times are compared on the
// database clock only. A relay never changes the schema; what it finds missing it names together with the command that
// makes it.
package postgres
