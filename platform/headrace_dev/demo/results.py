"""The results: as they arrive, for a screen, and as they stand in Kafka, for the check."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.types import Schema
from headrace.local.engine.collect_sink import Collection
from headrace.local.engine.job import Progress
from headrace.local.topics.records import consume

_LATEST, _BUSIEST = 6, 6
_TIMES = ("scheduled", "window_start", "window_end")
_FLOATS = ("dep_delay", "mean_delay", "worst")
_INTS = ("flight", "flights")


@dataclass(frozen=True, slots=True)
class LiveView:
    """The state of the demonstration. `latest`: windows, newest first; `busiest`: carriers over all hours so far."""

    sent: int
    total: int
    seconds: float
    progress: Progress
    windows: int
    latest: pl.DataFrame
    busiest: pl.DataFrame


class LiveResults:
    """Reads the windows that a tap of the pipeline collects."""

    def __init__(self, collection: Collection, schema: Schema) -> None:
        self._collection = collection
        self._schema = schema

    def view(self, sent: int, total: int, seconds: float, progress: Progress) -> LiveView:
        """Returns the current tables."""
        rows = self._collection.frame(self._schema)
        hour = rows.filter(pl.col("window_start") == pl.col("window_start").max())
        return LiveView(
            sent=sent,
            total=total,
            seconds=seconds,
            progress=progress,
            windows=rows.height,
            latest=hour.sort("flights", "carrier", "origin", descending=[True, False, False]).head(_LATEST),
            busiest=_by_carrier(rows).head(_BUSIEST),
        )


def _by_carrier(rows: pl.DataFrame) -> pl.DataFrame:
    flights = pl.col("flights").sum()
    mean = (pl.col("mean_delay") * pl.col("flights")).sum() / flights
    by_carrier = rows.group_by("carrier").agg(
        hours=pl.col("window_start").n_unique(), flights=flights, mean_delay=mean, worst=pl.col("worst").max()
    )
    return by_carrier.sort("flights", "carrier", descending=[True, False])


def read_topic(brokers: str, topic: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Returns the rows of a result topic, from its first record to its end."""
    body = b"\n".join(record.value for record in consume(brokers, topic) if record.value is not None)
    schema = {name: _json_type(name) for name in columns}
    rows = pl.read_ndjson(body, schema=schema) if body else pl.DataFrame(schema=schema)
    times = pl.col(name for name in columns if name in _TIMES)
    return rows.with_columns(
        times.str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="us").dt.replace_time_zone("UTC")
    )


def _json_type(name: str) -> pl.DataType:
    if name in _FLOATS:
        return pl.Float64()
    return pl.Int64() if name in _INTS else pl.String()
