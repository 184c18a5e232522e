// Package kafka hands events to Apache Kafka. It alone knows the Kafka client.
//
// Every record is produced idempotently and counts as published only when all in-sync replicas have it (acks=all);
// neither can be switched off. A key lands on the partition that the Java client's default partitioner chooses
// (murmur2).
//
// Not promised: an unclean leader election loses records that were acknowledged.
package kafka
