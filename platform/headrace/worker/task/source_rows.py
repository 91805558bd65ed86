"""From what a reader polled to rows with event time, handed down the chain; bad messages go where the source says.

The part of a source that every engine shares. Knows no loop, no commands and no clock.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import polars as pl

from headrace.connect.source import MessageBatch, RowBatch, SplitId
from headrace.core.batch import TS, WM
from headrace.core.errors import DataError
from headrace.operators.chain import Receiver
from headrace.operators.operator import OnError
from headrace.plan.physical import SourceSpec
from headrace.worker.task.ingest import Ingest
from headrace.worker.task.source_time import SourceTime


class SourceRows:
    """One source subtask's way from messages to rows. `rows` and `bad` receive the main output and the bad rows."""

    def __init__(
        self,
        spec: SourceSpec,
        *,
        ingest: Ingest,
        time: SourceTime,
        rows: Receiver,
        bad: Receiver,
        counters: Counter[str],
    ) -> None:
        self._spec = spec
        self._ingest = ingest
        self._time = time
        self._rows = rows
        self._bad = bad
        self.counters = counters

    def take(self, batch: MessageBatch | RowBatch) -> None:
        """Decodes, dates and hands down a batch. Raises DataError for a bad message where the source fails on it."""
        self.counters["rows_in"] += len(batch)
        made = self._ingest.ingest(batch)
        if made.skipped:
            self.counters["skipped"] += made.skipped
        if made.bad is not None:
            self._on_bad(made.bad)
        if not made.rows.height:
            return
        rows = made.rows
        if made.ts is not None:
            watermarks = self._time.observe(made.runs, made.ts, made.positions)
            if watermarks is not None:
                rows = rows.hstack([pl.Series(WM, watermarks, dtype=pl.Int64)])
        self.counters["rows_out"] += rows.height
        self._rows.on_batch(rows)

    def _on_bad(self, bad: pl.DataFrame) -> None:
        self.counters["bad"] += bad.height
        match self._spec.on_error:
            case OnError.FAIL:
                raise self._failure(bad.row(0, named=True))
            case OnError.SKIP:
                pass
            case OnError.DIVERT:
                self._bad.on_batch(bad.with_columns(pl.lit(None, dtype=pl.Int64).alias(TS)))
            case _:
                assert_never(self._spec.on_error)

    def _failure(self, row: dict[str, object]) -> DataError:
        split = SplitId(str(row["topic"]), int(str(row["partition"])))
        place = self._spec.config.describe_position(split, int(str(row["offset"])))
        value = row["value"]
        shown = value[:200].decode(errors="replace") if isinstance(value, bytes) else "NULL"
        return DataError(
            f"source {self._spec.node}: {place}: {row['reason']}: {shown}",
            remedy="fix the data, or set `on_error:` to skip, divert or {dead_letter: <topic>}",
            place=place,
            node=self._spec.node,
        )
