import type { Pool } from "pg";
import { inTransaction, writeEvent, type OutboxEvent } from "./outbox.js";
import { uuid7 } from "./uuid7.js";

interface Order {
  id: string;
  customer_id: string;
  total_amount: string; // pg leaves numeric as text, with every digit
  currency: string;
  revision: number;
}

export interface ConfirmOrder {
  orderId: string;
  /** Of the request that is being served, by W3C Trace Context. */
  traceparent: string;
}

/**
 * Confirms orders of one service. A confirmation and its event are one transaction. `lastStep` stands for what else a
 * service does inside the transaction; when it throws, neither change nor event has ever been.
 */
export function orderConfirmation(pool: Pool, service: string, lastStep: (event: OutboxEvent) => Promise<void>) {
  return ({ orderId, traceparent }: ConfirmOrder): Promise<OutboxEvent> =>
    inTransaction(pool, async (tx) => {
      // The lock serialises the writers of this order, so that its events go out in the order of its revisions.
      const found = await tx.query<Order>(
        "select id, customer_id, total_amount, currency, revision from example_order where id = $1 for update",
        [orderId],
      );
      const order = found.rows[0];
      if (!order) throw new Error(`confirm order ${orderId}: there is no such order`);
      const revision = order.revision + 1;
      await tx.query("update example_order set status = 'confirmed', revision = $2 where id = $1", [orderId, revision]);

      const event = orderConfirmed(service, { ...order, revision }, traceparent);
      await writeEvent(tx, event);
      await lastStep(event);
      return event;
    });
}

function orderConfirmed(service: string, order: Order, traceparent: string): OutboxEvent {
  const eventId = uuid7();
  const eventType = "order.confirmed.v1";
  return {
    eventId,
    eventType,
    aggregateType: "Order",
    aggregateId: order.id,
    topic: `${service}.order.confirmed`,
    payload: {
      event_id: eventId,
      event_type: eventType,
      occurred_at: new Date().toISOString(),
      aggregate_type: "Order",
      aggregate_id: order.id,
      order_id: order.id,
      customer_id: order.customer_id,
      total_amount: order.total_amount,
      currency: order.currency,
      revision: order.revision,
    },
    headers: { traceparent },
  };
}
