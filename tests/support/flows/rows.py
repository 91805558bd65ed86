"""Random rows over several partitions: disorder, late rows, NULLs, skew, NaN, signed zeros, ties in time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
from hypothesis import strategies as st

from support.oracles.aggregates import Row

FLOATS = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 1e16, -1e16, 0.1]),
    st.floats(width=64),
)
KEYS = st.one_of(st.none(), st.sampled_from(["hot", "hot", "hot", "a", "b", "ä", ""]))


@dataclass(frozen=True)
class Log:
    """Rows by partition, in offset order, and the out-of-orderness that their watermarks are made with."""

    partitions: tuple[tuple[Row, ...], ...]
    lag_ms: int

    @property
    def rows(self) -> list[Row]:
        return [row for partition in self.partitions for row in partition]

    def frame(self) -> pl.DataFrame:
        """As `rows_source` takes it."""
        rows = self.rows
        return pl.DataFrame(
            {
                "key": [row.key for row in rows],
                "x": [row.x for row in rows],
                "i": [row.i for row in rows],
                "s": [row.s for row in rows],
                "ts": pl.Series([row.ts * 1000 for row in rows], dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
                "$partition": [row.partition for row in rows],
            },
            schema_overrides={"key": pl.String, "x": pl.Float64, "i": pl.Int64, "s": pl.String, "$partition": pl.Int64},
        )


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A log of up to 3 partitions; time runs forward with jitter, now and then far back."""
    lag_ms = draw(st.integers(0, 20))
    partitions: list[tuple[Row, ...]] = []
    for partition in range(draw(st.integers(1, 3))):
        base, top, rows = draw(st.integers(-50, 50)), None, list[Row]()
        for offset in range(draw(st.integers(0, 25))):
            base += draw(st.integers(0, 8))
            ts = base - draw(st.one_of(st.integers(0, 10), st.integers(0, 120)))
            top = ts if top is None else max(top, ts)
            i = draw(st.one_of(st.none(), st.integers(-1000, 1000)))
            s = draw(st.one_of(st.none(), st.sampled_from("xyz")))
            rows.append(Row(draw(KEYS), draw(FLOATS), i, s, ts, top - lag_ms - 1, partition, offset))
        partitions.append(tuple(rows))
    return Log(tuple(partitions), lag_ms)


def sliding(size: int, every: int) -> Callable[[int], list[tuple[int, int]]]:
    """ts -> the (start, end) of every sliding window that holds it."""

    def spans(ts: int) -> list[tuple[int, int]]:
        last = ts // every * every
        return [(start, start + size) for start in range(last, ts - size, -every)]

    return spans
