// Package faults proves Posthaste's producer against a Kafka that misbehaves on command: refusals, time-outs, lost
// answers, moved partitions and fenced producers, drawn at random from a seed. The proof is in the tests; this package
// exports nothing.
//
// The cluster is a fake that speaks the real protocol (franz-go's kfake), since no real broker can be made to give
// these answers when a test wants them. What a real one does on a bad day is proven in package e2e.
//
//	POSTHASTE_E2E_SEED     repeats one run of a random test, which prints its seeds
package faults
