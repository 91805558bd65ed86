package peers;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Reads wide rows, every field into its type. */
final class WideRowReader extends JsonReader<WideRow> {
    WideRowReader() {
        super(WideRow.class);
    }

    @Override
    WideRow empty() {
        return new WideRow();
    }

    @Override
    void field(WideRow row, String name, JsonParser parser) throws IOException {
        if (parser.currentToken() == JsonToken.VALUE_NULL) {
            return;
        }
        switch (name) {
            case "id" -> row.id = parser.getLongValue();
            case "at" -> row.at = Timestamps.parse(parser.getText());
            case "day" -> row.day = LocalDate.parse(parser.getText());
            case "customer" -> row.customer = parser.getIntValue();
            case "country" -> row.country = parser.getText();
            case "email" -> row.email = parser.getText();
            case "note" -> row.note = parser.getText();
            case "premium" -> row.premium = parser.getBooleanValue();
            case "gift" -> row.gift = parser.getBooleanValue();
            case "quantity" -> row.quantity = parser.getIntValue();
            case "price" -> row.price = new BigDecimal(parser.getText());
            case "discount" -> row.discount = parser.getFloatValue();
            case "weight" -> row.weight = parser.getDoubleValue();
            case "score" -> row.score = parser.getDoubleValue();
            case "signature" -> row.signature = parser.getBinaryValue();
            case "tags" -> row.tags = tags(parser);
            case "ratings" -> row.ratings = ratings(parser);
            case "address" -> row.address = address(parser);
            case "device" -> row.device = device(parser);
            case "lines" -> row.lines = lines(parser);
            default -> parser.skipChildren();
        }
    }

    private static List<String> tags(JsonParser parser) throws IOException {
        List<String> tags = new ArrayList<>(4);
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            tags.add(parser.getText());
        }
        return tags;
    }

    private static int[] ratings(JsonParser parser) throws IOException {
        int[] ratings = new int[8];
        int count = 0;
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            if (count == ratings.length) {
                ratings = Arrays.copyOf(ratings, 2 * count);
            }
            ratings[count++] = parser.getIntValue();
        }
        return Arrays.copyOf(ratings, count);
    }

    private static WideRow.Address address(JsonParser parser) throws IOException {
        WideRow.Address address = new WideRow.Address();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            parser.nextToken();
            switch (name) {
                case "street" -> address.street = parser.getText();
                case "city" -> address.city = parser.getText();
                case "zip" -> address.zip = parser.getText();
                case "geo" -> geo(address, parser);
                default -> parser.skipChildren();
            }
        }
        return address;
    }

    private static void geo(WideRow.Address address, JsonParser parser) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            parser.nextToken();
            switch (name) {
                case "lat" -> address.lat = parser.getDoubleValue();
                case "lon" -> address.lon = parser.getDoubleValue();
                default -> parser.skipChildren();
            }
        }
    }

    private static WideRow.Device device(JsonParser parser) throws IOException {
        WideRow.Device device = new WideRow.Device();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            parser.nextToken();
            switch (name) {
                case "os" -> device.os = parser.getText();
                case "version" -> device.version = parser.getText();
                case "screen" -> screen(device, parser);
                default -> parser.skipChildren();
            }
        }
        return device;
    }

    private static void screen(WideRow.Device device, JsonParser parser) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            parser.nextToken();
            switch (name) {
                case "width" -> device.width = parser.getIntValue();
                case "height" -> device.height = parser.getIntValue();
                default -> parser.skipChildren();
            }
        }
    }

    private static List<WideRow.Line> lines(JsonParser parser) throws IOException {
        List<WideRow.Line> lines = new ArrayList<>(4);
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            lines.add(line(parser));
        }
        return lines;
    }

    private static WideRow.Line line(JsonParser parser) throws IOException {
        WideRow.Line line = new WideRow.Line();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            parser.nextToken();
            switch (name) {
                case "sku" -> line.sku = parser.getText();
                case "count" -> line.count = parser.getIntValue();
                case "price" -> line.price = new BigDecimal(parser.getText());
                default -> parser.skipChildren();
            }
        }
        return line;
    }
}
