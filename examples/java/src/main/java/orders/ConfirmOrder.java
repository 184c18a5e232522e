package orders;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import javax.sql.DataSource;

/** Confirms orders of one service. A confirmation and its event are one transaction. */
final class ConfirmOrder {
    private record Order(UUID id, UUID customerId, BigDecimal totalAmount, String currency, int revision) {
        Order confirmed() {
            return new Order(id, customerId, totalAmount, currency, revision + 1);
        }
    }

    private final DataSource database;
    private final Outbox outbox;
    private final String service;

    ConfirmOrder(DataSource database, Outbox outbox, String service) {
        this.database = database;
        this.outbox = outbox;
        this.service = service;
    }

    /**
     * @param traceparent of the request that is being served, by W3C Trace Context
     * @param lastStep stands for what else a service does inside the transaction; when it throws, neither change nor
     *     event has ever been
     */
    void handle(UUID orderId, String traceparent, Consumer<OutboxEvent> lastStep) throws SQLException {
        try (var tx = database.getConnection()) {
            tx.setAutoCommit(false);
            try {
                Order order = lock(tx, orderId).confirmed();
                save(tx, order);
                OutboxEvent event = orderConfirmed(order, traceparent);
                outbox.write(tx, event);
                lastStep.accept(event);
                tx.commit();
            } catch (Throwable t) {
                // Not left to the closing: a pool may pass the connection on as it is, and its next user would then
                // commit half of this.
                try {
                    tx.rollback();
                } catch (SQLException e) {
                    t.addSuppressed(e);
                }
                throw t;
            }
        }
    }

    /** The lock serialises the writers of this order, so that its events go out in the order of its revisions. */
    private static Order lock(Connection tx, UUID id) throws SQLException {
        String sql = "select customer_id, total_amount, currency, revision from example_order where id = ? for update";
        try (var select = tx.prepareStatement(sql)) {
            select.setObject(1, id);
            try (var row = select.executeQuery()) {
                if (!row.next()) {
                    throw new IllegalArgumentException("confirm order " + id + ": there is no such order");
                }
                UUID customerId = row.getObject(1, UUID.class);
                return new Order(id, customerId, row.getBigDecimal(2), row.getString(3), row.getInt(4));
            }
        }
    }

    private static void save(Connection tx, Order order) throws SQLException {
        String sql = "update example_order set status = 'confirmed', revision = ? where id = ?";
        try (var update = tx.prepareStatement(sql)) {
            update.setInt(1, order.revision());
            update.setObject(2, order.id());
            update.executeUpdate();
        }
    }

    private OutboxEvent orderConfirmed(Order order, String traceparent) {
        UUID eventId = Uuid7.next();
        String type = "order.confirmed.v1";
        String aggregateId = order.id().toString();
        var payload = new LinkedHashMap<String, Object>();
        payload.put("event_id", eventId.toString());
        payload.put("event_type", type);
        payload.put("occurred_at", Instant.now().toString());
        payload.put("aggregate_type", "Order");
        payload.put("aggregate_id", aggregateId);
        payload.put("order_id", aggregateId);
        payload.put("customer_id", order.customerId().toString());
        payload.put("total_amount", order.totalAmount().toPlainString());
        payload.put("currency", order.currency());
        payload.put("revision", order.revision());
        return new OutboxEvent(eventId, type, "Order", aggregateId, service + ".order.confirmed", payload,
                Map.of("traceparent", traceparent));
    }
}
