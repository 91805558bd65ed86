package peers;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;

/** Reads narrow rows. */
final class EventReader extends JsonReader<Event> {
    EventReader() {
        super(Event.class);
    }

    @Override
    Event empty() {
        return new Event();
    }

    @Override
    void field(Event event, String name, JsonParser parser) throws IOException {
        switch (name) {
            case "k" -> event.k = parser.getLongValue();
            case "ts" -> event.ts = parser.getLongValue();
            case "v" -> event.v = parser.getDoubleValue();
            default -> parser.skipChildren();
        }
    }
}
