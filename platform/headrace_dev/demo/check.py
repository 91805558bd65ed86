"""The expected results of the pipeline, by a polars batch query, and the differences of the actual ones. Pure.

Independent of the engine on purpose: it shares no code with the windows that it checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace_dev.demo.flights import COLUMNS

WINDOW = pl.duration(hours=1)
WINDOW_COLUMNS = ("origin", "carrier", "window_start", "window_end", "flights", "mean_delay", "worst")

_SHOWN = 3
_COPIES = "copies"


@dataclass(frozen=True, slots=True)
class Expected:
    """Every row of the results: windows, and the flights that were late for theirs."""

    windows: pl.DataFrame
    late: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Check:
    """The result of the comparison. `differences` is empty if every row is right."""

    windows: int
    counted: int
    late: int
    differences: tuple[str, ...]


def expected_results(flights: pl.DataFrame, out_of_orderness_ms: int) -> Expected:
    """Returns the results of the batch query. `flights` in log order, with `partition`.

    A flight is late if its own partition's watermark, just after the flight, has reached the last millisecond of its
    hour. Cancelled flights advance the watermark, too, because they are filtered only behind the source. Delays are
    whole minutes, so that their sum is exact and the mean has one correct value.
    """
    watermark = pl.col("scheduled").cum_max().over("partition") - pl.duration(milliseconds=out_of_orderness_ms + 1)
    departed = (
        flights.with_columns(watermark=watermark, window_start=pl.col("scheduled").dt.truncate("1h"))
        .with_columns(window_end=pl.col("window_start") + WINDOW, dep_delay=pl.col("dep_delay").cast(pl.Float64))
        .filter(pl.col("dep_delay").is_not_null())
        .with_columns(late=pl.col("window_end") - pl.duration(milliseconds=1) <= pl.col("watermark"))
    )
    delay = pl.col("dep_delay")
    windows = (
        departed.filter(~pl.col("late"))
        .group_by("origin", "carrier", "window_start", "window_end")
        .agg(flights=pl.len().cast(pl.Int64), mean_delay=delay.sum() / pl.len(), worst=delay.max())
    )
    return Expected(windows.select(WINDOW_COLUMNS), departed.filter("late").select(COLUMNS))


def compare(expected: Expected, windows: pl.DataFrame, late: pl.DataFrame) -> Check:
    """Compares row by row: each (origin, carrier, window) with count, mean and worst, and each late flight."""
    return Check(
        windows=windows.height,
        counted=int(windows.get_column("flights").sum()),
        late=late.height,
        differences=(
            *_differences("window", expected.windows, windows, WINDOW_COLUMNS),
            *_differences("late flight", expected.late, late, COLUMNS),
        ),
    )


def _differences(what: str, expected: pl.DataFrame, actual: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Compares both as multisets."""
    wanted, made = (side.group_by(columns).agg(pl.len().alias(_COPIES)) for side in (expected, actual))
    found: list[str] = []
    for verdict, these, those in (("missing", wanted, made), ("not expected", made, wanted)):
        rows = these.join(those, on=[*columns, _COPIES], how="anti", nulls_equal=True).sort(columns)
        if rows.height:
            examples = "; ".join(_row_text(row) for row in rows.head(_SHOWN).iter_rows(named=True))
            found.append(f"{rows.height:,} {what} rows {verdict}, such as {examples}")
    return found


def _row_text(row: dict[str, object]) -> str:
    copies = row.pop(_COPIES)
    text = ", ".join(f"{name} {value}" for name, value in row.items())
    return text if copies == 1 else f"{text} ({copies} times)"
