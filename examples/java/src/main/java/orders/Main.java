package orders;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;

/**
 * Confirms four orders again and again, several at a time, and lets every fifth transaction fail at its last step.
 * Prints a line of JSON for each event, also for those that were rolled back.
 */
final class Main {
    private static final int ORDERS = 4;
    private static final int TRANSACTIONS = 20;

    private static final class OutOfStock extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private Main() {}

    public static void main(String[] args) throws Exception {
        DataSource database = database(Objects.requireNonNull(System.getenv("DATABASE_URL"), "set DATABASE_URL"));
        String service = System.getenv().getOrDefault("SERVICE", "order-service");
        var confirmOrder = new ConfirmOrder(database, new Outbox(), service);
        List<UUID> orders = placeOrders(database);

        var threads = Executors.newFixedThreadPool(8);
        try {
            var confirmations = new ArrayList<Callable<String>>();
            for (int n = 0; n < TRANSACTIONS; n++) {
                UUID order = orders.get(n % ORDERS);
                boolean outOfStock = n % 5 == 4;
                confirmations.add(() -> confirm(confirmOrder, order, outOfStock));
            }
            for (Future<String> line : threads.invokeAll(confirmations)) {
                System.out.println(line.get());
            }
        } finally {
            threads.shutdown();
        }
    }

    private static String confirm(ConfirmOrder confirmOrder, UUID order, boolean outOfStock) throws Exception {
        var written = new AtomicReference<OutboxEvent>();
        boolean committed = true;
        try {
            confirmOrder.handle(order, newTraceparent(), event -> {
                written.set(event);
                if (outOfStock) {
                    throw new OutOfStock();
                }
            });
        } catch (OutOfStock e) {
            committed = false;
        }
        OutboxEvent event = written.get();
        var line = new LinkedHashMap<String, Object>();
        line.put("committed", committed);
        line.put("event_id", event.id());
        line.put("event_type", event.type());
        line.put("topic", event.topic());
        line.put("key", event.aggregateId());
        line.put("headers", event.headers());
        line.put("payload", event.payload());
        return new ObjectMapper().writeValueAsString(line);
    }

    private static List<UUID> placeOrders(DataSource database) throws SQLException {
        var orders = new ArrayList<UUID>();
        try (var db = database.getConnection()) {
            try (var create = db.createStatement()) {
                create.execute(
                        """
                        create table if not exists example_order (
                            id           uuid    primary key,
                            customer_id  uuid    not null,
                            total_amount numeric not null,
                            currency     text    not null,
                            status       text    not null,
                            revision     integer not null
                        )
                        """);
            }
            try (var insert = db.prepareStatement("insert into example_order values (?, ?, ?, 'EUR', 'new', 0)")) {
                for (int n = 0; n < ORDERS; n++) {
                    orders.add(UUID.randomUUID());
                    insert.setObject(1, orders.get(n));
                    insert.setObject(2, UUID.randomUUID());
                    insert.setBigDecimal(3, new BigDecimal(n + ".10"));
                    insert.executeUpdate();
                }
            }
        }
        return orders;
    }

    /** The driver takes no user and password before the host, as URLs of other clients have them. */
    private static DataSource database(String url) {
        URI uri = URI.create(url);
        String[] user = uri.getRawUserInfo().split(":", 2);
        String host = uri.getRawAuthority().substring(uri.getRawAuthority().lastIndexOf('@') + 1);
        var database = new PGSimpleDataSource();
        database.setUrl("jdbc:postgresql://" + host + uri.getRawPath()
                + (uri.getRawQuery() == null ? "" : "?" + uri.getRawQuery()));
        database.setUser(decode(user[0]));
        if (user.length > 1) {
            database.setPassword(decode(user[1]));
        }
        return database;
    }

    private static String decode(String part) {
        return URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8); // in a URL's user, + is no space
    }

    /** Stands for the header of a request. */
    private static String newTraceparent() {
        var bytes = new byte[24];
        new SecureRandom().nextBytes(bytes);
        HexFormat hex = HexFormat.of();
        return "00-" + hex.formatHex(bytes, 0, 16) + "-" + hex.formatHex(bytes, 16, 24) + "-01";
    }
}
