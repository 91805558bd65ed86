package starts;

import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job that counts, and discards the numbers: it takes one slot, as the pipeline beside it does. */
public final class Numbers {
    private Numbers() {}

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        environment.fromSequence(0, Long.MAX_VALUE).sinkTo(new DiscardingSink<>());
        environment.execute("numbers");
    }
}
