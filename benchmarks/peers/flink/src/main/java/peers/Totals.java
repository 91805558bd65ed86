package peers;

import org.apache.flink.api.common.functions.AggregateFunction;

/** Count and sum of {@code v}; the accumulator is {count, sum}. */
final class Totals implements AggregateFunction<Event, double[], double[]> {
    @Override
    public double[] createAccumulator() {
        return new double[2];
    }

    @Override
    public double[] add(Event event, double[] totals) {
        totals[0] += 1;
        totals[1] += event.v;
        return totals;
    }

    @Override
    public double[] getResult(double[] totals) {
        return totals;
    }

    @Override
    public double[] merge(double[] totals, double[] others) {
        totals[0] += others[0];
        totals[1] += others[1];
        return totals;
    }
}
