package orders;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.sql.Connection;
import java.sql.SQLException;

/** Writes events in the transaction that is open on the caller's connection. */
final class Outbox {
    private static final String INSERT =
            """
            insert into outbox_event
                (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
            values (?, ?, ?, ?, ?::jsonb, ?, ?, ?::jsonb)
            """;

    private final ObjectMapper json = new ObjectMapper();

    void write(Connection tx, OutboxEvent event) throws SQLException {
        // The driver commits after each statement until it is told not to: the event would outlive a roll-back.
        if (tx.getAutoCommit()) {
            throw new IllegalStateException("write event " + event.id() + ": the connection is not in a transaction");
        }
        try (var insert = tx.prepareStatement(INSERT)) {
            insert.setObject(1, event.id());
            insert.setString(2, event.aggregateType());
            insert.setString(3, event.aggregateId());
            insert.setString(4, event.type());
            insert.setString(5, json.writeValueAsString(event.payload()));
            insert.setString(6, event.topic());
            insert.setString(7, event.aggregateId());
            insert.setString(8, json.writeValueAsString(event.headers()));
            insert.executeUpdate();
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("write event " + event.id() + ": payload or headers are no JSON", e);
        }
    }
}
