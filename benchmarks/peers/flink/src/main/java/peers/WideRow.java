package peers;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;

/** A wide row in Java's types. Times are epoch ms. Objects may be null. */
public final class WideRow {
    public long id;
    public long at;
    public LocalDate day;
    public int customer;
    public String country;
    public String email;
    public String note;
    public boolean premium;
    public Boolean gift;
    public int quantity;
    public BigDecimal price;
    public float discount;
    public double weight;
    public double score;
    public byte[] signature;
    public List<String> tags;
    public int[] ratings;
    public Address address;
    public Device device;
    public List<Line> lines;

    /** Where it goes. */
    public static final class Address {
        public String street;
        public String city;
        public String zip;
        public double lat;
        public double lon;
    }

    /** What it was ordered on. */
    public static final class Device {
        public String os;
        public String version;
        public int width;
        public int height;
    }

    /** One item. */
    public static final class Line {
        public String sku;
        public int count;
        public BigDecimal price;
    }
}
