import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Reads lines "partitions key-in-base64" and prints the partition that the Java client's partitioner chooses. */
class Partitions {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        var out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            int space = line.indexOf(' ');
            int partitions = Integer.parseInt(line.substring(0, space));
            byte[] key = Base64.getDecoder().decode(line.substring(space + 1));
            out.append(BuiltInPartitioner.partitionForKey(key, partitions)).append('\n');
        }
        System.out.print(out);
    }
}
