package peers;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;

/** Reads one JSON object a message with Jackson's pull parser, field by field, without a tree or reflection. */
abstract class JsonReader<T> implements DeserializationSchema<T> {
    private final Class<T> type;
    private transient JsonFactory factory;

    JsonReader(Class<T> type) {
        this.type = type;
    }

    /** A row without values. */
    abstract T empty();

    /** Sets a field of the row. The parser is at the field's value and is left at the value's last token. */
    abstract void field(T row, String name, JsonParser parser) throws IOException;

    @Override
    public void open(InitializationContext context) {
        factory = JsonFactory.builder()
                .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
                .build();
    }

    @Override
    public T deserialize(byte[] message) throws IOException {
        T row = empty();
        try (JsonParser parser = factory.createParser(message)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                field(row, name, parser);
            }
        }
        return row;
    }

    @Override
    public boolean isEndOfStream(T row) {
        return false;
    }

    @Override
    public TypeInformation<T> getProducedType() {
        return TypeInformation.of(type);
    }
}
