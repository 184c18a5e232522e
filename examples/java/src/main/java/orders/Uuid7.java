package orders;

import java.security.SecureRandom;
import java.util.UUID;

/** Makes UUIDs of version 7: 48 bits of Unix milliseconds, then chance (RFC 9562, section 5.7). */
final class Uuid7 {
    private static final SecureRandom RANDOM = new SecureRandom();

    private Uuid7() {}

    static UUID next() {
        long high = System.currentTimeMillis() << 16 | 0x7000 | RANDOM.nextInt(0x1000);
        long low = RANDOM.nextLong() >>> 2 | 1L << 63;
        return new UUID(high, low);
    }
}
