package peers;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;

/** Writes results of windows. */
final class WindowRowWriter extends JsonWriter<WindowRow> {
    @Override
    void fields(WindowRow row, JsonGenerator json) throws IOException {
        json.writeNumberField("k", row.k);
        json.writeNumberField("w", row.w);
        json.writeNumberField("n", row.n);
        json.writeNumberField("s", row.s);
    }
}
