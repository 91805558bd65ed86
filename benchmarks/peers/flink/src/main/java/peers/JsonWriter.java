package peers;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.StreamWriteFeature;
import com.fasterxml.jackson.core.util.ByteArrayBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.flink.api.common.serialization.SerializationSchema;

/** Writes one JSON object a row with Jackson's generator, field by field, into a buffer that is used again. */
abstract class JsonWriter<T> implements SerializationSchema<T> {
    private transient JsonFactory factory;
    private transient ByteArrayBuilder buffer;

    /** Writes the fields of a row. */
    abstract void fields(T row, JsonGenerator json) throws IOException;

    @Override
    public void open(InitializationContext context) {
        factory = JsonFactory.builder()
                .enable(StreamWriteFeature.USE_FAST_DOUBLE_WRITER)
                .build();
        buffer = new ByteArrayBuilder();
    }

    @Override
    public byte[] serialize(T row) {
        buffer.reset();
        try (JsonGenerator json = factory.createGenerator(buffer)) {
            json.writeStartObject();
            fields(row, json);
            json.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return buffer.toByteArray();
    }
}
