"""The generator source: rows by rule, at a rate or as fast as they are polled.

A value is a function of (seed, column, row number over all partitions), so it does not depend on batch sizes, pauses
and restarts.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.connect.offsets_by_partition import stops_of
from headrace.connect.source import Polled, RowBatch, Run, SourceContext, Split, SplitId
from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import DataType, Primitive, Timestamp, polars_type
from headrace_connectors.generator.config import GeneratorSourceSettings
from headrace_connectors.generator.rules import ColumnRule

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


Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)
_LETTERS_A_WORD = 12
_NULLS, _FIRST_LETTERS = 1, 2
"""Streams of further random words of a row: for NULL, and for letters beyond the first twelve."""


def mixed(seed: int, stream: int, rows: Numbers) -> Words:
    """One random 64-bit word per row (splitmix64; Steele et al., OOPSLA 2014): independent for every seed and
    stream."""
    # mixing the seed first: otherwise neighbouring seeds would yield shifted copies of each other
    base = _finish(np.array([(seed * 0x9E3779B97F4A7C15 + stream + 1) & 0xFFFFFFFFFFFFFFFF], np.uint64))
    return _finish(base + rows.astype(np.uint64) * _GAMMA)


def _finish(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


class ColumnMaker:
    """Computes one column of a schema."""

    def __init__(self, name: str, rule: ColumnRule, dtype: DataType, seed: int) -> None:
        self._name, self._rule, self._seed = name, rule, seed
        self._dtype = polars_type(dtype)
        # the name, not the position, selects the stream, so that other columns do not change this one
        self._stream = zlib.crc32(name.encode()) << 20
        self._choices = None if rule.choice is None else _typed_choices(name, rule.choice, dtype)

    def make(self, rows: Numbers) -> pl.Series:
        """The values at these row numbers. Raises UserError if they do not fit the column's type."""
        try:
            column = self._values(rows).cast(self._dtype).alias(self._name)
        except pl.exceptions.PolarsError as cause:
            raise UserError(f"generated column {self._name!r} does not fit its type: {cause}") from cause
        if self._rule.nulls == 0:
            return column
        drawn = _unit(mixed(self._seed, self._stream + _NULLS, rows)) < self._rule.nulls
        return pl.select(pl.when(~pl.Series(drawn)).then(column).alias(self._name)).to_series()

    def _values(self, rows: Numbers) -> pl.Series:
        rule = self._rule
        if rule.sequence is not None:
            return pl.Series(rule.sequence.start + rows * rule.sequence.step)
        if rule.string is not None:
            return self._strings(rows, rule.string.length)
        words = mixed(self._seed, self._stream, rows)
        if rule.int is not None:
            span = np.uint64((rule.int.max - rule.int.min + 1) & 0xFFFFFFFFFFFFFFFF)
            offsets = words if span == 0 else words % span
            return pl.Series(offsets.astype(np.int64) + np.int64(rule.int.min))
        if rule.float is not None:
            return pl.Series(rule.float.min + _unit(words) * (rule.float.max - rule.float.min))
        if rule.bool is not None:
            return pl.Series(_unit(words) < rule.bool.probability)
        if self._choices is not None:
            return self._choices.gather(pl.Series(words % np.uint64(len(self._choices))))
        assert rule.time is not None
        late = (words % np.uint64(rule.time.jitter + 1)).astype(np.int64)
        stamps = int(rule.time.start.timestamp() * 1000) + rows * rule.time.step + late
        return pl.Series(stamps).cast(pl.Datetime("ms", "UTC"))

    def _strings(self, rows: Numbers, length: int) -> pl.Series:
        letters = np.empty((len(rows), length), np.uint8)
        for place in range(length):
            group, within = divmod(place, _LETTERS_A_WORD)
            if within == 0:
                words = mixed(self._seed, self._stream + (_FIRST_LETTERS + group if group else 0), rows)
            letters[:, place] = _ALPHABET[(words >> np.uint64(5 * within)) & np.uint64(31)]
        offsets = np.arange(0, (len(rows) + 1) * length, length, dtype=np.int64)
        import pyarrow as pa

        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        series = pl.from_arrow(pa.Array.from_buffers(pa.large_string(), len(rows), buffers))
        assert isinstance(series, pl.Series)
        return series


def _unit(words: Words) -> npt.NDArray[np.float64]:
    """Values in [0, 1) with 53 random bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _typed_choices(name: str, choices: tuple[Any, ...], dtype: DataType) -> pl.Series:
    texts = pl.Series([None if item is None else str(item) for item in choices], dtype=pl.String)
    try:
        match dtype:
            case Timestamp():
                return texts.str.to_datetime(time_zone="UTC", time_unit="us")
            case Primitive.DATE:
                return texts.str.to_date()
            case Primitive.BOOL:
                return texts.str.to_lowercase().replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
            case _:
                return texts.cast(polars_type(dtype))
    except pl.exceptions.PolarsError as cause:
        raise UserError(f"a choice of generated column {name!r} is no {dtype}: {list(choices)}") from cause
