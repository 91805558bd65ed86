"""A source of rows that are in memory, in place of the real sources of a pipeline under test.

It is bounded, and has partitions and record timestamps. `spec.rows` defines how test rows are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import ConfigDict

from headrace.connect.source import (
    Enumerator,
    Offsets,
    Polled,
    Reader,
    RowBatch,
    Run,
    SourceConfig,
    SourceContext,
    Split,
    SplitId,
)


class RowsSource(SourceConfig):
    """Rows by partition. `partitions[i]`: rows of partition i; `stamps[i]`: their timestamps (epoch ms), if known."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    partitions: tuple[pl.DataFrame, ...]
    stamps: tuple[pl.Series | None, ...]

    @property
    def bounded(self) -> bool:
        """True: the source ends after the last row, so that windows close."""
        return True

    def describe_position(self, split: SplitId, position: int) -> str:
        """`input row 3`, counted from 1; with the partition if it is not the first."""
        place = f" of partition {split.partition}" if split.partition else ""
        return f"input row {position + 1}{place}"

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """The enumerator: one split for each partition."""
        return _Enumerator(self, context.node)

    def open_reader(self, context: SourceContext) -> Reader:
        """The reader of one subtask."""
        return _Reader(self, context.poll_rows_max)


class StampedRowsSource(RowsSource):
    """A RowsSource whose record timestamps are the event time."""

    record_time: ClassVar[bool] = True


class _Enumerator:
    discovery_interval_ms: int | None = None

    def __init__(self, config: RowsSource, node: str) -> None:
        self._splits = [Split(SplitId(node, i), 0, rows.height) for i, rows in enumerate(config.partitions)]

    def discover(self) -> Sequence[Split]:
        """All partitions."""
        return self._splits

    def close(self) -> None:
        """Holds nothing."""


class _Reader:
    """Reads the partitions in turn: each poll returns one batch of one partition."""

    def __init__(self, config: RowsSource, rows_max: int) -> None:
        self._config = config
        self._rows_max = rows_max
        self._places: dict[SplitId, int] = {}
        self._empty: set[SplitId] = set()
        self._paused: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions."""
        for split in splits:
            if split.start < self._height(split.id):
                self._places[split.id] = split.start
            else:
                self._empty.add(split.id)

    def poll(self, timeout_ms: int) -> Polled:
        """The next batch; never waits."""
        finished, self._empty = set(self._empty), set()
        split = next((split for split in self._places if split not in self._paused), None)
        if split is None:
            return Polled(finished=frozenset(finished))
        begin = self._places.pop(split)
        end = min(begin + self._rows_max, self._height(split))
        if end < self._height(split):
            self._places[split] = end
        else:
            finished.add(split)
        return Polled(self._batch(split, begin, end), {split: end}, finished=frozenset(finished))

    def _batch(self, split: SplitId, begin: int, end: int) -> RowBatch:
        stamps = self._config.stamps[split.partition]
        times: Offsets | None = None if stamps is None else stamps[begin:end].to_numpy()
        return RowBatch(
            rows=self._config.partitions[split.partition][begin:end],
            positions=np.arange(begin, end, dtype=np.int64),
            runs=(Run(split, 0, end - begin),),
            timestamps=times,
        )

    def _height(self, split: SplitId) -> int:
        return self._config.partitions[split.partition].height

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Returns no rows of these partitions until `resume`."""
        self._paused |= set(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues with these partitions."""
        self._paused -= set(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Does nothing: positions are not stored."""

    def close(self) -> None:
        """Holds nothing."""
