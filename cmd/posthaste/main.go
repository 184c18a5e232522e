// Command posthaste ships events from an outbox table in PostgreSQL to Kafka.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
