package peers;

/** A narrow row: key, event time (epoch ms), value. Public fields let Flink serialize it as a POJO. */
public final class Event {
    public long k;
    public long ts;
    public double v;
}
