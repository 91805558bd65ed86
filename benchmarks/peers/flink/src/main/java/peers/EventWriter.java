package peers;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;

/** Writes narrow rows. */
final class EventWriter extends JsonWriter<Event> {
    @Override
    void fields(Event event, JsonGenerator json) throws IOException {
        json.writeNumberField("k", event.k);
        json.writeNumberField("ts", event.ts);
        json.writeNumberField("v", event.v);
    }
}
