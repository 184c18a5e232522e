/**
 * Confirms four orders again and again, several at a time, and lets every fifth transaction fail at its last step.
 * Prints a line of JSON for each event, also for those that were rolled back.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { Pool } from "pg";
import { orderConfirmation } from "./confirmOrder.js";
import type { OutboxEvent } from "./outbox.js";

const ORDERS = 4;
const TRANSACTIONS = 20;

class OutOfStock extends Error {}

async function main(): Promise<void> {
  const pool = new Pool({ connectionString: process.env["DATABASE_URL"] });
  try {
    const orders = await placeOrders(pool);
    await Promise.all(
      Array.from({ length: TRANSACTIONS }, (_, n) => confirm(pool, orders[n % ORDERS]!, n % 5 === 4)),
    );
  } finally {
    await pool.end();
  }
}

async function confirm(pool: Pool, orderId: string, outOfStock: boolean): Promise<void> {
  let written: OutboxEvent | undefined;
  const confirmOrder = orderConfirmation(pool, process.env["SERVICE"] ?? "order-service", async (event) => {
    written = event;
    if (outOfStock) throw new OutOfStock();
  });
  let committed = true;
  try {
    await confirmOrder({ orderId, traceparent: newTraceparent() });
  } catch (error) {
    if (!(error instanceof OutOfStock)) throw error;
    committed = false;
  }
  if (!written) throw new Error("no event was written");
  const { eventId, eventType, topic, aggregateId, headers, payload } = written;
  const line = { committed, event_id: eventId, event_type: eventType, topic, key: aggregateId, headers, payload };
  console.log(JSON.stringify(line));
}

async function placeOrders(pool: Pool): Promise<string[]> {
  await pool.query(
    `create table if not exists example_order (
       id           uuid    primary key,
       customer_id  uuid    not null,
       total_amount numeric not null,
       currency     text    not null,
       status       text    not null,
       revision     integer not null
     )`,
  );
  const orders = Array.from({ length: ORDERS }, () => randomUUID());
  for (const [n, id] of orders.entries()) {
    await pool.query("insert into example_order values ($1, $2, $3, 'EUR', 'new', 0)", [id, randomUUID(), `${n}.10`]);
  }
  return orders;
}

/** Stands for the header of a request. */
function newTraceparent(): string {
  return `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`;
}

await main();
