"""What memory sources read and memory sinks write, by name, inside one process.

An entry lives as long as the `with` block that opened it, so nothing outlives a test. All of it is thread-safe: the
test and the job's threads meet here.
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
    """Rows that a source reads while the test adds them. Partitions are fixed when it is opened."""

    name: str
    partitions: int
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _parts: list[list[Rows]] = field(default_factory=list)
    _ended: bool = False

    def __post_init__(self) -> None:
        self._parts = [[] for _ in range(self.partitions)]

    def append(self, rows: Rows, partition: int = 0) -> None:
        """Adds rows to a partition, in order: a frame of the schema's columns, or mappings."""
        with self._lock:
            assert not self._ended, f"feed {self.name!r} has ended"
            self._parts[partition].append(rows)
            self._lock.notify_all()

    def end(self) -> None:
        """Nothing more will come: the source finishes when it has read all."""
        with self._lock:
            self._ended = True
            self._lock.notify_all()

    def taken_from(self, partition: int, index: int) -> tuple[list[Rows], bool]:
        """What was added to a partition from the index-th addition on, and whether that is all there will be."""
        with self._lock:
            return self._parts[partition][index:], self._ended

    def wait_addition(self, seen: int, timeout_s: float) -> None:
        """Blocks until more than `seen` additions were made in all, the feed ends, or the time is up."""
        with self._lock:
            self._lock.wait_for(lambda: self._ended or self._additions() > seen, timeout_s)

    def additions(self) -> int:
        """How many additions were made in all."""
        with self._lock:
            return self._additions()

    def _additions(self) -> int:
        return sum(len(part) for part in self._parts)


@dataclass(slots=True)
class Collected:
    """Rows that sinks of this name wrote: hidden columns too, in the order in which they came."""

    name: str
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _batches: list[pl.DataFrame] = field(default_factory=list)
    _flushed: int = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Takes one batch."""
        with self._lock:
            self._batches.append(rows)
            self._lock.notify_all()

    def mark_flushed(self) -> None:
        """Everything so far is durable, in the sense of this sink."""
        with self._lock:
            self._flushed = len(self._batches)
            self._lock.notify_all()

    def batches(self, *, flushed: bool = False) -> list[pl.DataFrame]:
        """The batches as they came; `flushed`: only those before the last flush."""
        with self._lock:
            return list(self._batches[: self._flushed] if flushed else self._batches)

    def rows(self) -> list[dict[str, Any]]:
        """All rows with their visible columns."""
        return [row for batch in self.batches() for row in batch.select(visible_columns(batch)).to_dicts()]

    def wait_rows(self, count: int, timeout_s: float) -> bool:
        """Blocks until at least `count` rows have come; False when the time is up first."""
        with self._lock:
            return self._lock.wait_for(lambda: sum(batch.height for batch in self._batches) >= count, timeout_s)


_lock = threading.Lock()
_feeds: dict[str, Feed] = {}
_collected: dict[str, Collected] = {}


@contextmanager
def open_feed(name: str, partitions: int = 1) -> Iterator[Feed]:
    """Rows for memory sources that say `name:`; gone after the block."""
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
    """Takes what memory sinks that say `name:` write; gone after the block."""
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
    """The open feed of that name. Raises UserError where there is none."""
    with _lock:
        found = _feeds.get(name)
    if found is None:
        raise UserError(f"no memory feed {name!r} is open", remedy="open it with headrace_connectors.memory.open_feed")
    return found


def collected_named(name: str) -> Collected:
    """The open collection of that name. Raises UserError where there is none."""
    with _lock:
        found = _collected.get(name)
    if found is None:
        remedy = "open it with headrace_connectors.memory.open_collected"
        raise UserError(f"nobody collects memory sink {name!r}", remedy=remedy)
    return found
