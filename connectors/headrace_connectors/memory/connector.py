"""The memory source and sink: rows from the pipeline file, or added by a test while the job runs; a sink collects rows
for a test. Rows are few, so values are converted one by one.

Feeds and collections have names within one process. An entry lives as long as the `with` block that opened it, so
nothing outlives a test. Both are thread-safe: the test and the job's threads share them.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal as ExactNumber
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.connect.source import (
    Enumerator,
    Polled,
    Reader,
    RowBatch,
    Run,
    SourceConfig,
    SourceContext,
    Split,
    SplitId,
)
from headrace.core.batch import visible_columns
from headrace.core.errors import UserError
from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp, polars_type

Rows = pl.DataFrame | Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Feed:
    """Rows that a source reads while the test adds them. The number of partitions is fixed at opening."""

    name: str
    partitions: int
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _parts: list[list[Rows]] = field(default_factory=list)
    _ended: bool = False

    def __post_init__(self) -> None:
        self._parts = [[] for _ in range(self.partitions)]

    def append(self, rows: Rows, partition: int = 0) -> None:
        """Appends rows to a partition: a frame of the schema's columns, or mappings."""
        with self._lock:
            assert not self._ended, f"feed {self.name!r} has ended"
            self._parts[partition].append(rows)
            self._lock.notify_all()

    def end(self) -> None:
        """Ends the feed: the source finishes when it has read all rows."""
        with self._lock:
            self._ended = True
            self._lock.notify_all()

    def taken_from(self, partition: int, index: int) -> tuple[list[Rows], bool]:
        """The additions to a partition from the index-th on, and whether the feed has ended."""
        with self._lock:
            return self._parts[partition][index:], self._ended

    def wait_addition(self, seen: int, timeout_s: float) -> None:
        """Blocks until there are more than `seen` additions in total, the feed ends, or the time is up."""
        with self._lock:
            self._lock.wait_for(lambda: self._ended or self._additions() > seen, timeout_s)

    def additions(self) -> int:
        """Total number of additions."""
        with self._lock:
            return self._additions()

    def _additions(self) -> int:
        return sum(len(part) for part in self._parts)


@dataclass(slots=True)
class Collected:
    """Rows that sinks with this name wrote, including hidden columns, in order of arrival."""

    name: str
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _batches: list[pl.DataFrame] = field(default_factory=list)
    _flushed: int = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Stores one batch."""
        with self._lock:
            self._batches.append(rows)
            self._lock.notify_all()

    def mark_flushed(self) -> None:
        """Marks all batches so far as durable."""
        with self._lock:
            self._flushed = len(self._batches)
            self._lock.notify_all()

    def batches(self, *, flushed: bool = False) -> list[pl.DataFrame]:
        """The batches in order of arrival; `flushed`: only those before the last flush."""
        with self._lock:
            return list(self._batches[: self._flushed] if flushed else self._batches)

    def rows(self) -> list[dict[str, Any]]:
        """All rows with their visible columns."""
        return [row for batch in self.batches() for row in batch.select(visible_columns(batch)).to_dicts()]

    def wait_rows(self, count: int, timeout_s: float) -> bool:
        """Blocks until there are at least `count` rows; False if the time is up first."""
        with self._lock:
            return self._lock.wait_for(lambda: sum(batch.height for batch in self._batches) >= count, timeout_s)


_lock = threading.Lock()
_feeds: dict[str, Feed] = {}
_collected: dict[str, Collected] = {}


@contextmanager
def open_feed(name: str, partitions: int = 1) -> Iterator[Feed]:
    """Opens a feed for memory sources with this `name:`; removed after the block."""
    feed = Feed(name, partitions)
    with _lock:
        assert name not in _feeds, f"feed {name!r} is open already"
        _feeds[name] = feed
    try:
        yield feed
    finally:
        with _lock:
            del _feeds[name]


@contextmanager
def open_collected(name: str) -> Iterator[Collected]:
    """Collects the rows of memory sinks with this `name:`; removed after the block."""
    collected = Collected(name)
    with _lock:
        assert name not in _collected, f"{name!r} is collected already"
        _collected[name] = collected
    try:
        yield collected
    finally:
        with _lock:
            del _collected[name]


def feed_named(name: str) -> Feed:
    """The open feed with this name. Raises UserError if there is none."""
    with _lock:
        found = _feeds.get(name)
    if found is None:
        raise UserError(f"no memory feed {name!r} is open", remedy="open it with headrace_connectors.memory.open_feed")
    return found


def collected_named(name: str) -> Collected:
    """The open collection with this name. Raises UserError if there is none."""
    with _lock:
        found = _collected.get(name)
    if found is None:
        remedy = "open it with headrace_connectors.memory.open_collected"
        raise UserError(f"nobody collects memory sink {name!r}", remedy=remedy)
    return found


_STAMP = "__timestamp"
TIMESTAMP_KEY = "$timestamp"
PARTITION_KEY = "$partition"
_SCALE_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_BOOLS = {"true": True, "false": False}
_FROM_TEXT: dict[Primitive, Callable[[str], Any]] = {
    Primitive.BOOL: lambda text: _BOOLS[text.lower()],
    Primitive.INT32: int,
    Primitive.INT64: int,
    Primitive.FLOAT32: float,
    Primitive.FLOAT64: float,
    Primitive.STRING: str,
    Primitive.BINARY: base64.b64decode,
    Primitive.DATE: date.fromisoformat,
}


class MemorySourceConfig(SourceConfig):
    """Rows in memory: given here as `rows`, or by a test under `name`. A row may carry `$partition`, `$timestamp`."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    rows: tuple[dict[str, Any], ...] | None = Field(
        default=None, description="the rows, column name to value; $partition and $timestamp are a row's own"
    )
    name: str | None = Field(default=None, min_length=1, description="the feed that a test opened under this name")
    partitions: int = Field(default=1, ge=1, description="number of partitions of `rows`")

    @model_validator(mode="after")
    def _one_of_both(self) -> MemorySourceConfig:
        if (self.rows is None) == (self.name is None):
            raise ValueError("give either rows or name")
        for row in self.rows or ():
            if not 0 <= int(row.get(PARTITION_KEY) or 0) < self.partitions:
                raise ValueError(f"{PARTITION_KEY} {row[PARTITION_KEY]} is not below partitions ({self.partitions})")
        return self

    @property
    def bounded(self) -> bool:
        """Whether all rows are known; the test ends a feed."""
        return self.rows is not None

    def describe_position(self, split: SplitId, position: int) -> str:
        """`partition 0 row 4`, counted from 0."""
        return f"partition {split.partition} row {position}"

    def partition_count(self) -> int:
        """Number of partitions."""
        return self.partitions if self.name is None else feed_named(self.name).partitions

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Opens the enumerator of the partitions."""
        return MemoryEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> Reader:
        """Opens the reader of the rows."""
        return MemoryReader(self, context)


class MemoryEnumerator:
    """Partitions from row 0 to the last one; without a stop if a test feeds them."""

    discovery_interval_ms: int | None = None

    def __init__(self, config: MemorySourceConfig, context: SourceContext) -> None:
        self._config, self._node = config, context.node

    def discover(self) -> Sequence[Split]:
        """The partitions."""
        counts = None
        if self._config.rows is not None:
            placed = [int(row.get(PARTITION_KEY) or 0) for row in self._config.rows]
            counts = [placed.count(partition) for partition in range(self._config.partitions)]
        return [
            Split(SplitId(self._node, partition), 0, None if counts is None else counts[partition])
            for partition in range(self._config.partition_count())
        ]

    def close(self) -> None:
        """Does nothing: there are no resources."""


class _Partition:
    """The known rows of one partition; grows with additions of the feed."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.position = split.start
        self.rows: pl.DataFrame | None = None
        self.additions = 0
        self.complete = False

    @property
    def known(self) -> int:
        end = 0 if self.rows is None else self.rows.height
        return end if self.split.stop is None else min(end, self.split.stop)

    @property
    def finished(self) -> bool:
        if self.split.stop is not None and self.position >= self.split.stop:
            return True
        return self.complete and self.position >= self.known


class MemoryReader:
    """Returns rows of one partition after the other, up to the poll limit."""

    def __init__(self, config: MemorySourceConfig, context: SourceContext) -> None:
        self._context = context
        self._feed: Feed | None = None if config.name is None else feed_named(config.name)
        self._inline = config.rows
        self._parts: dict[SplitId, _Partition] = {}
        self._paused: set[SplitId] = set()
        self._reported: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions."""
        for split in splits:
            part = _Partition(split)
            if self._inline is not None:
                mine = [row for row in self._inline if int(row.get(PARTITION_KEY) or 0) == split.id.partition]
                part.rows, part.complete = self._frame(mine), True
            self._parts[split.id] = part

    def poll(self, timeout_ms: int) -> Polled:
        """Rows of one partition, or none when the time is up."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            seen = 0 if self._feed is None else self._feed.additions()
            self._take_additions()
            polled = self._next()
            left = deadline - time.monotonic()
            if polled.batch is not None or polled.finished or left <= 0:
                return polled
            if self._feed is None:
                time.sleep(left)
            else:
                self._feed.wait_addition(seen, left)

    def _take_additions(self) -> None:
        if self._feed is None:
            return
        for part in self._parts.values():
            added, part.complete = self._feed.taken_from(part.split.id.partition, part.additions)
            for rows in added:
                frame = self._frame(rows)
                part.rows = frame if part.rows is None else pl.concat([part.rows, frame], how="diagonal")
            part.additions += len(added)

    def _next(self) -> Polled:
        batch: RowBatch | None = None
        positions: Mapping[SplitId, int] = {}
        for split, part in self._parts.items():
            if split in self._paused or part.position >= part.known:
                continue
            assert part.rows is not None
            end = min(part.known, part.position + self._context.poll_rows_max)
            batch = _batch(part.rows[part.position : end], split, part.position)
            part.position, positions = end, {split: end}
            # the next poll starts with another partition
            self._parts[split] = self._parts.pop(split)
            break
        finished = frozenset(
            split for split, part in self._parts.items() if part.finished and split not in self._reported
        )
        self._reported |= finished
        at_end = frozenset(
            split for split, part in self._parts.items() if part.position >= part.known and not part.finished
        )
        return Polled(batch=batch, positions=positions, at_end=at_end, finished=finished)

    def _frame(self, rows: Rows) -> pl.DataFrame:
        if isinstance(rows, pl.DataFrame):
            return rows
        frame = typed_rows(rows, self._context.schema, self._context.node)
        if any(TIMESTAMP_KEY in row for row in rows):
            stamps = [epoch_ms(row[TIMESTAMP_KEY]) if TIMESTAMP_KEY in row else None for row in rows]
            frame = frame.with_columns(pl.Series(_STAMP, stamps, dtype=pl.Int64))
        return frame

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops delivering rows of these partitions."""
        self._paused.update(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues these partitions."""
        self._paused.difference_update(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Does nothing: positions are not published."""

    def close(self) -> None:
        """Releases the rows."""
        self._parts.clear()


def _batch(rows: pl.DataFrame, split: SplitId, start: int) -> RowBatch:
    stamps = None
    if _STAMP in rows.columns:
        column = rows.get_column(_STAMP)
        rows = rows.drop(_STAMP)
        stamps = column.to_numpy() if column.null_count() == 0 else None
    return RowBatch(
        rows=rows,
        positions=np.arange(start, start + rows.height, dtype=np.int64),
        runs=(Run(split, 0, rows.height),),
        timestamps=stamps,
    )


def typed_rows(rows: Sequence[Mapping[str, Any]], schema: Schema, where: str) -> pl.DataFrame:
    """Rows as a frame of the schema; a missing column is NULL. Raises UserError with the row's number (from 1)."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for number, row in enumerate(rows, start=1):
        for name in row:
            if name not in schema and name not in (TIMESTAMP_KEY, PARTITION_KEY):
                raise UserError(f"{where}: row {number} has {name!r}, which is no column of the schema ({schema})")
        for item in schema:
            value = row.get(item.name)
            if value is None and not item.nullable:
                raise UserError(f"{where}: row {number}: column {item.name!r} is not null and has no value")
            try:
                columns[item.name].append(typed_value(value, item.type))
            except (ValueError, KeyError, ArithmeticError) as cause:
                raise UserError(f"{where}: row {number}: {value!r} is no {item.type} ({item.name})") from cause
    return pl.DataFrame(
        {name: pl.Series(name, values, dtype=polars_type(schema.field(name).type)) for name, values in columns.items()},
    )


def typed_value(value: Any, dtype: DataType) -> Any:
    """A value as the Python value that polars accepts for `dtype`; text is parsed by the type."""
    if value is None:
        return None
    match dtype:
        case ListOf(inner):
            return [typed_value(item, inner) for item in value]
        case Struct(fields):
            return {item.name: typed_value(value.get(item.name), item.type) for item in fields}
        case Timestamp(unit):
            return _moment(value, unit)
        case Decimal():
            return ExactNumber(str(value))
        case Primitive():
            return _FROM_TEXT[dtype](value) if isinstance(value, str) else value


def _moment(value: Any, unit: str) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    text = str(value)
    if text.lstrip("-").isdigit():
        return datetime.fromtimestamp(int(text) * _SCALE_US[unit] / 1_000_000, UTC)
    return _moment(datetime.fromisoformat(text), unit)


def epoch_ms(value: Any) -> int:
    """A row's `$timestamp` (RFC 3339 or epoch ms) as epoch ms."""
    return int(_moment(value, "ms").timestamp() * 1000)


# ---- the sink --------------------------------------------------------------------------------------------------------


class MemorySinkConfig(SinkConfig):
    """Keeps rows under `name` for the test that opened it."""

    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    name: str = Field(min_length=1, description="the collection that a test opened under this name")

    @property
    def accepts_updates(self) -> bool:
        """Updating rows are stored unchanged."""
        return True

    @property
    def accepts_deletes(self) -> bool:
        """Deletes are stored as rows with `__op`."""
        return True

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens a writer that appends to the collection."""
        return MemoryWriter(collected_named(self.name))


class MemoryWriter:
    """Appends batches to a collection."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    def write(self, batch: SinkBatch) -> None:
        """Stores a non-empty batch."""
        if len(batch):
            self._collected.add(batch.rows)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Marks everything so far as durable."""
        self._collected.mark_flushed()
        return ()

    def close(self) -> None:
        """Does nothing: there are no resources."""
