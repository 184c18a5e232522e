// Package e2e proves Posthaste from end to end: real PostgreSQL, real Kafka, relays as processes, writers that do what
// services do, faults at random, and a checker that shares no code with what it checks.
//
// The proof is in the tests; this package exports nothing. Its parts:
//
//   - check judges a run by the writers' ledger, the table and Kafka
//   - load writes events and keeps the ledger
//   - process and proxy do harm to relays, brokers and networks
//   - wrongrelay is a relay with mistakes, on which the suite shows that it can fail
//
// The servers are those of the test bed, or given by environment variable (package internal/testenv). Further settings:
//
//	POSTHASTE_E2E_SEED     repeats the faults and the load of a run, which prints its seed
//	POSTHASTE_E2E_SECONDS  load of a chaos run, default 15; longer for a soak
//	POSTHASTE_E2E_LONG     if not empty, outages and waits last as long as in the reports that the tests are about
//	                       (minutes), and a chaos run 120 seconds; scripts/long sets it
//	POSTHASTE_E2E_BINARY   a posthaste binary to test, instead of one built from this tree
package e2e
