"""Steps of bare loops, the ceilings of the benchmarks here and of those beside other engines."""
