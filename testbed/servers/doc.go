// Package servers starts real PostgreSQL and real Apache Kafka servers on this machine, for tests.
//
// Every server listens on 127.0.0.1 only, in a process session of its own: it outlives the process that started it.
// What a test starts it must also end, with Remove; what a killed test left behind, `go run ./testbed down` ends, as
// long as the server's folder is one that the package chose. Binaries come once from Maven's central repository and
// stay in a cache. The package runs on Linux and macOS.
//
// The methods of a handle may be called concurrently, except those that say otherwise.
package servers
