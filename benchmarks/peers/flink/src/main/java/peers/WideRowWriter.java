package peers;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;

/** Writes wide rows: decimals, times, dates and bytes as text, as Headrace's format does. */
final class WideRowWriter extends JsonWriter<WideRow> {
    @Override
    void fields(WideRow row, JsonGenerator json) throws IOException {
        json.writeNumberField("id", row.id);
        json.writeStringField("at", Timestamps.text(row.at));
        json.writeStringField("day", row.day.toString());
        json.writeNumberField("customer", row.customer);
        json.writeStringField("country", row.country);
        json.writeStringField("email", row.email);
        json.writeStringField("note", row.note);
        json.writeBooleanField("premium", row.premium);
        json.writeFieldName("gift");
        if (row.gift == null) {
            json.writeNull();
        } else {
            json.writeBoolean(row.gift);
        }
        json.writeNumberField("quantity", row.quantity);
        json.writeStringField("price", row.price.toPlainString());
        json.writeNumberField("discount", row.discount);
        json.writeNumberField("weight", row.weight);
        json.writeNumberField("score", row.score);
        json.writeBinaryField("signature", row.signature);
        json.writeArrayFieldStart("tags");
        for (String tag : row.tags) {
            json.writeString(tag);
        }
        json.writeEndArray();
        json.writeFieldName("ratings");
        json.writeArray(row.ratings, 0, row.ratings.length);
        address(row.address, json);
        device(row.device, json);
        lines(row, json);
    }

    private static void address(WideRow.Address address, JsonGenerator json) throws IOException {
        json.writeObjectFieldStart("address");
        json.writeStringField("street", address.street);
        json.writeStringField("city", address.city);
        json.writeStringField("zip", address.zip);
        json.writeObjectFieldStart("geo");
        json.writeNumberField("lat", address.lat);
        json.writeNumberField("lon", address.lon);
        json.writeEndObject();
        json.writeEndObject();
    }

    private static void device(WideRow.Device device, JsonGenerator json) throws IOException {
        json.writeObjectFieldStart("device");
        json.writeStringField("os", device.os);
        json.writeStringField("version", device.version);
        json.writeObjectFieldStart("screen");
        json.writeNumberField("width", device.width);
        json.writeNumberField("height", device.height);
        json.writeEndObject();
        json.writeEndObject();
    }

    private static void lines(WideRow row, JsonGenerator json) throws IOException {
        json.writeArrayFieldStart("lines");
        for (WideRow.Line line : row.lines) {
            json.writeStartObject();
            json.writeStringField("sku", line.sku);
            json.writeNumberField("count", line.count);
            json.writeStringField("price", line.price.toPlainString());
            json.writeEndObject();
        }
        json.writeEndArray();
    }
}
