"""The rows of memory sources and sinks, by name, within one process.

An entry lives as long as the `with` block that opened it, so nothing outlives a test. Everything is thread-safe: the
test and the job's threads share it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from headrace.core.batch import visible_columns
from headrace.core.errors import UserError

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
