"""Windows of every kind in local time beside the same windows in UTC, in this process.

1 M rows by default in batches of 32,768: 1,000 keys, 1 row per second of event time with jitter below 1 s, over a
change of the clocks; and 800 rows in batches of 8 with new panes in each, where a window slides by seconds and minutes.
Prints CPU seconds in Europe/Berlin, in UTC, and the median of the ratios of alternating pairs.

    python benchmarks/local_windows.py [rows] [pairs]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import statistics
import sys
from dataclasses import replace

import numpy as np
import polars as pl
from window import INPUT, Batches, Drain, cpu_seconds

from headrace.core.signals import TIME_MAX
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
MARCH = 1_711_584_000_000
"""2024-03-28T00:00Z, three days before the clocks of Berlin go forward."""
WIDE: list[Window] = [
    Tumbling(DAY),
    Tumbling(12 * HOUR),
    Tumbling(HOUR),
    Tumbling(MINUTE),
    Sliding(7 * DAY, DAY),
    Sliding(DAY, 6 * HOUR),
    Sliding(HOUR, 5 * MINUTE),
    Cumulate(7 * DAY, DAY),
    Cumulate(DAY, HOUR),
    Cumulate(HOUR, 5 * MINUTE),
]
FINE: list[Window] = [Sliding(10 * MINUTE, SECOND), Sliding(6 * HOUR, MINUTE)]


def batches(rows: int, batch_rows: int, step_ms: int) -> Batches:
    random = np.random.default_rng(1)
    times = MARCH + np.arange(rows) * step_ms - random.integers(0, 1000, rows)
    columns = {
        "key": random.integers(0, 1_000, rows),
        "value": np.ones(rows),
        "units": np.ones(rows, np.int64),
        "__ts": times,
    }
    starts = range(0, rows, batch_rows)
    frames = [pl.DataFrame({name: column[at : at + batch_rows] for name, column in columns.items()}) for at in starts]
    return [(frame, int(times[at]) - 2_000) for at, frame in zip(starts, frames, strict=True)]


def run(data: Batches, window: Window) -> None:
    config = AggregateConfig("step", ("key",), window, (("n", "count(*)"),), INPUT)
    operator, out = config.open(), Drain()
    for batch, watermark in data:
        operator.on_batch(batch, out)
        operator.on_watermark(watermark, out)
    operator.on_watermark(TIME_MAX, out)
    assert out.rows, "windows fired"


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    cases = [(window, batches(rows, 32_768, SECOND)) for window in WIDE]
    cases += [(FINE[0], batches(800, 8, 500)), (FINE[1], batches(800, 8, 30 * SECOND))]
    for window, data in cases:
        local = replace(window, timezone="Europe/Berlin")
        times = [(cpu_seconds(lambda: run(data, local)), cpu_seconds(lambda: run(data, window))) for _ in range(pairs)]  # noqa: B023
        here, there = (statistics.median(part) for part in zip(*times, strict=True))
        ratio = statistics.median(one / other for one, other in times)
        print(f"{window.definition():42s} Europe/Berlin {here:7.3f} s   UTC {there:7.3f} s   {ratio:.2f}x", flush=True)


if __name__ == "__main__":
    main()
