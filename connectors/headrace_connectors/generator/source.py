"""The generator source: rows by rule, the same for the same seed, at a rate or as fast as they are polled."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from headrace.connect.offsets_by_partition import stops_of
from headrace.connect.source import Polled, RowBatch, Run, SourceContext, Split, SplitId
from headrace.core.errors import UserError, did_you_mean
from headrace_connectors.generator.column_maker import ColumnMaker
from headrace_connectors.generator.config import GeneratorSourceSettings

BATCH_ROWS = 16_384
"""Most rows of one poll."""
ENDLESS = int(np.iinfo(np.int64).max)


class GeneratorEnumerator:
    """Partition p has the rows p, p + partitions, p + 2 * partitions, .."""

    discovery_interval_ms: int | None = None

    def __init__(self, config: GeneratorSourceSettings, context: SourceContext) -> None:
        self._config, self._context = config, context
        check_columns(config, context)

    def discover(self) -> Sequence[Split]:
        """The partitions, always the same."""
        config = self._config
        splits = [SplitId(self._context.node, partition) for partition in range(config.partitions)]
        if not config.bounded:
            return [Split(split, 0) for split in splits]
        stops = stops_of(config.stop, {split: self._rows_of(split.partition) for split in splits})
        return [Split(split, 0, stops[split]) for split in splits]

    def _rows_of(self, partition: int) -> int:
        rows, count = self._config.rows, self._config.partitions
        return ENDLESS if rows is None else max(0, (rows - partition + count - 1) // count)

    def close(self) -> None:
        """Does nothing: there are no resources."""


def check_columns(config: GeneratorSourceSettings, context: SourceContext) -> None:
    """Raises UserError unless rules and schema name the same columns."""
    schema = context.schema
    for name in config.columns:
        if name not in schema:
            hint = did_you_mean(name, schema.names)
            raise UserError(f"source {context.node!r} makes {name!r}, which is no column of its schema", remedy=hint)
    for item in schema:
        rule = config.columns.get(item.name)
        if not item.nullable and (rule is None or rule.nulls > 0):
            found = "no rule makes it" if rule is None else "its rule makes NULLs"
            raise UserError(f"source {context.node!r}: column {item.name!r} is not null, but {found}")


class GeneratorReader:
    """Computes rows, one partition after the other."""

    def __init__(self, config: GeneratorSourceSettings, context: SourceContext) -> None:
        self._config = config
        self._rows_max = min(context.poll_rows_max, BATCH_ROWS)
        self._makers = [
            ColumnMaker(item.name, rule, item.type, config.seed)
            for item in context.schema
            if (rule := config.columns.get(item.name)) is not None
        ]
        self._splits: dict[SplitId, Split] = {}
        self._positions: dict[SplitId, int] = {}
        self._rate_from: dict[SplitId, tuple[float, int]] = {}
        self._paused: set[SplitId] = set()
        self._finished: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions; their rate counts from now."""
        now = time.monotonic()
        for split in splits:
            self._splits[split.id] = split
            self._positions[split.id] = split.start
            self._rate_from[split.id] = (now, split.start)

    def poll(self, timeout_ms: int) -> Polled:
        """Rows of one partition. With a rate: the rows due now, or else those due at the end of the timeout."""
        deadline = time.monotonic() + timeout_ms / 1000
        batch, positions = self._make(time.monotonic())
        finished = self._newly_finished()
        if batch is None and not finished:
            time.sleep(max(deadline - time.monotonic(), 0))
            batch, positions = self._make(time.monotonic())
            finished = self._newly_finished()
        return Polled(batch=batch, positions=positions, finished=finished)

    def _make(self, now: float) -> tuple[RowBatch | None, Mapping[SplitId, int]]:
        for split in list(self._splits):
            begin = self._positions[split]
            end = min(self._due(split, now), begin + self._rows_max)
            if split in self._paused or end <= begin:
                continue
            self._positions[split] = end
            # the next poll starts with another partition
            self._splits[split] = self._splits.pop(split)
            return self._batch(split, begin, end), {split: end}
        return None, {}

    def _due(self, split: SplitId, now: float) -> int:
        """The position up to which rows are due now."""
        stop = self._splits[split].stop
        limit = ENDLESS if stop is None else stop
        if self._config.rate is None:
            return limit
        since, position = self._rate_from[split]
        return min(limit, position + int((now - since) * self._config.rate / self._config.partitions))

    def _batch(self, split: SplitId, begin: int, end: int) -> RowBatch:
        positions = np.arange(begin, end, dtype=np.int64)
        rows = positions * self._config.partitions + split.partition
        frame = pl.DataFrame([maker.make(rows) for maker in self._makers])
        return RowBatch(frame, positions, (Run(split, 0, end - begin),))

    def _newly_finished(self) -> frozenset[SplitId]:
        done = {
            split.id
            for split in self._splits.values()
            if split.stop is not None and self._positions[split.id] >= split.stop
        }
        new = frozenset(done - self._finished)
        self._finished |= new
        return new

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops these partitions."""
        self._paused.update(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues these partitions; their rate counts from now, so that they do not catch up in a burst."""
        now = time.monotonic()
        for split in splits:
            if split in self._paused:
                self._paused.discard(split)
                self._rate_from[split] = (now, self._positions[split])

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Does nothing: positions are not published."""

    def close(self) -> None:
        """Does nothing: there are no resources."""
