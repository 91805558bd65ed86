package peers;

/** A result: key, start of the window (epoch ms), count, sum. */
public final class WindowRow {
    public long k;
    public long w;
    public long n;
    public double s;
}
