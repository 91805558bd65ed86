package peers;

import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Makes a result row of a window's totals. */
final class WindowRows extends ProcessWindowFunction<double[], WindowRow, Long, TimeWindow> {
    @Override
    public void process(Long key, Context context, Iterable<double[]> totals, Collector<WindowRow> output) {
        double[] total = totals.iterator().next();
        WindowRow row = new WindowRow();
        row.k = key;
        row.w = context.window().getStart();
        row.n = (long) total[0];
        row.s = total[1];
        output.collect(row);
    }
}
