import type { Pool, PoolClient } from "pg";

/** A row of outbox_event, as a writer fills it. Build it once and leave it as it is. */
export interface OutboxEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly aggregateType: string;
  /** Also the partition key: the events of one aggregate stay in order. */
  readonly aggregateId: string;
  readonly topic: string;
  /** Holds event_id too. Amounts are strings: JSON.stringify would round long numbers. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** Become headers of the Kafka record. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Writes an event in the transaction that is open on this connection. Not on a pool, which would give it another
 * connection and so another transaction.
 */
export async function writeEvent(tx: PoolClient, event: OutboxEvent): Promise<void> {
  await tx.query(
    `insert into outbox_event
       (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      event.eventId,
      event.aggregateType,
      event.aggregateId,
      event.eventType,
      JSON.stringify(event.payload),
      event.topic,
      event.aggregateId,
      JSON.stringify(event.headers),
    ],
  );
}

/** Runs a function in one transaction: committed when it returns, rolled back when it throws. */
export async function inTransaction<T>(pool: Pool, run: (tx: PoolClient) => Promise<T>): Promise<T> {
  const tx = await pool.connect();
  let broken = false;
  try {
    await tx.query("begin");
    const result = await run(tx);
    await tx.query("commit");
    return result;
  } catch (error) {
    // A connection that can't even roll back is closed, which rolls back as well, and never goes back to the pool.
    await tx.query("rollback").catch(() => (broken = true));
    throw error;
  } finally {
    tx.release(broken);
  }
}
