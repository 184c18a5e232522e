package orders;

import java.util.Map;
import java.util.UUID;

/**
 * A row of outbox_event, as a writer fills it.
 *
 * @param aggregateId also the partition key: the events of one aggregate stay in order
 * @param payload holds event_id too; amounts are strings, so that no consumer rounds them
 * @param headers become headers of the Kafka record
 */
record OutboxEvent(
        UUID id,
        String type,
        String aggregateType,
        String aggregateId,
        String topic,
        Map<String, Object> payload,
        Map<String, String> headers) {}
