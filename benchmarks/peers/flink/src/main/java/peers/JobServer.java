package peers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Runs one job after another in this JVM, so that later runs find compiled code.
 *
 * <p>Arguments: WORK (window, filter or wide), BROKERS, a folder for checkpoints, the memory of RocksDB in MiB or
 * "heap". Each line of stdin orders a run: SOURCE, SINK and the offset at which every partition of SOURCE ends. The
 * answer is the line "done" on stdout. The end
 * of stdin ends the server. A job that fails ends it with code 1.
 */
public final class JobServer {
    private JobServer() {}

    public static void main(String[] arguments) {
        int code = 0;
        try {
            serve(new Jobs(arguments[0], arguments[1], arguments[2], arguments[3]));
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        // threads of Flink's clients would keep the JVM for a while
        System.exit(code);
    }

    private static void serve(Jobs jobs) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] fields = order.split(" ");
            jobs.run(fields[0], fields[1], Long.parseLong(fields[2]));
            System.out.println("done");
            System.out.flush();
        }
    }
}
