package peers;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.kafka.common.TopicPartition;

/**
 * The jobs on Flink's DataStream API: state on the heap or in RocksDB, exactly once, a checkpoint a second, objects
 * reused, parallelism 1, in a cluster inside this JVM.
 */
final class Jobs {
    private static final int PARTITIONS = 4;
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration OUT_OF_ORDER = Duration.ofSeconds(1);
    private static final int QUANTITY_LIMIT = 50;

    private final String work;
    private final String brokers;
    private final String checkpoints;
    private final String state;

    Jobs(String work, String brokers, String checkpoints, String state) {
        this.work = work;
        this.brokers = brokers;
        this.checkpoints = checkpoints;
        this.state = state;
    }

    /** Runs the job to its end: up to offset {@code stop} of each partition of {@code source}. */
    void run(String source, String sink, long stop) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings());
        switch (work) {
            case "window" -> window(environment, source, sink, stop);
            case "filter" -> read(environment, source, stop, new EventReader(), WatermarkStrategy.noWatermarks())
                    .filter(event -> event.v > 0.5)
                    .sinkTo(sink(sink, new EventWriter()));
            case "wide" -> read(environment, source, stop, new WideRowReader(), WatermarkStrategy.noWatermarks())
                    .filter(row -> row.quantity > QUANTITY_LIMIT)
                    .sinkTo(sink(sink, new WideRowWriter()));
            default -> throw new IllegalArgumentException("no such work: " + work);
        }
        environment.execute();
    }

    private void window(StreamExecutionEnvironment environment, String source, String sink, long stop) {
        WatermarkStrategy<Event> time = WatermarkStrategy.<Event>forBoundedOutOfOrderness(OUT_OF_ORDER)
                .withTimestampAssigner((event, recordTime) -> event.ts);
        read(environment, source, stop, new EventReader(), time)
                .keyBy(event -> event.k, Types.LONG)
                .window(TumblingEventTimeWindows.of(WINDOW))
                .aggregate(new Totals(), new WindowRows())
                .sinkTo(sink(sink, new WindowRowWriter()));
    }

    private Configuration settings() {
        Configuration settings = new Configuration();
        if (state.equals("heap")) {
            settings.setString("state.backend.type", "hashmap");
        } else {
            settings.setString("state.backend.type", "rocksdb");
            settings.setString("execution.checkpointing.incremental", "true");
            settings.setString("taskmanager.memory.managed.size", state + "mb");
        }
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("rest.bind-port", "0");
        settings.setString("execution.checkpointing.interval", "1s");
        settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        settings.setString("execution.checkpointing.dir", "file://" + checkpoints);
        return settings;
    }

    private <T> DataStream<T> read(
            StreamExecutionEnvironment environment,
            String topic,
            long stop,
            DeserializationSchema<T> reader,
            WatermarkStrategy<T> time) {
        Map<TopicPartition, Long> ends = new HashMap<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            ends.put(new TopicPartition(topic, partition), stop);
        }
        KafkaSource<T> source = KafkaSource.<T>builder()
                .setBootstrapServers(brokers)
                .setTopics(topic)
                .setGroupId("peers-flink")
                .setProperty("isolation.level", "read_committed")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.offsets(ends))
                .setValueOnlyDeserializer(reader)
                .build();
        return environment.fromSource(source, time, "events");
    }

    private <T> KafkaSink<T> sink(String topic, SerializationSchema<T> writer) {
        Properties producer = new Properties();
        producer.setProperty("compression.type", "lz4");
        producer.setProperty("linger.ms", "20");
        producer.setProperty("batch.size", "262144");
        producer.setProperty("transaction.timeout.ms", "600000");
        return KafkaSink.<T>builder()
                .setBootstrapServers(brokers)
                .setKafkaProducerConfig(producer)
                .setRecordSerializer(KafkaRecordSerializationSchema.<T>builder()
                        .setTopic(topic)
                        .setValueSerializationSchema(writer)
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("peers-" + UUID.randomUUID())
                .build();
    }
}
