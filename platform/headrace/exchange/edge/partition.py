"""Partitions the rows of a batch over the subtasks that read it. Pure: no queues, no clock; `exchange.mailbox`
transports.

A partitioner is opened for one sending subtask. `targets` are the subtasks that it is connected to: signals go to all
of them, rows to those that `split` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, assert_never

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.group_ranges import subtask_of
from headrace.core.keygroups import key_groups
from headrace.exchange.edge.rows import Rows, Split
from headrace.kernels.group.key_hash import split_order
from headrace.plan.partitioning import Broadcast, Forward, Global, Hash, Partitioning, Rebalance, Rescale


class Partitioner(Protocol):
    """An edge's opened partitioning, for one sending subtask. Used by one thread."""

    @property
    def targets(self) -> Sequence[int]:
        """The subtasks that this sender feeds, ascending; each receives every signal."""
        ...

    def split(self, batch: pl.DataFrame) -> Split:
        """(target, its rows in order) for every target that receives rows of this batch."""
        ...


def open_partitioner(
    partitioning: Partitioning, *, subtask: int, senders: int, receivers: int, max_parallelism: int
) -> Partitioner:
    """The partitioner of sending subtask `subtask` out of `senders`, towards `receivers` subtasks."""
    assert 0 <= subtask < senders, f"subtask {subtask} of {senders}"
    assert 1 <= receivers <= max_parallelism, f"{receivers} receivers of at most {max_parallelism}"
    everyone = tuple(range(receivers))
    match partitioning:
        case Forward():
            assert senders == receivers, f"forward needs equal parallelism, not {senders} and {receivers}"
            return _Fixed((subtask,), rows_to=(subtask,))
        case Hash(keys):
            return _HashPartitioner(keys, everyone, max_parallelism)
        case Rebalance():
            return _RoundRobin(everyone, first=subtask)
        case Rescale():
            return _RoundRobin(_own_targets(subtask, senders, receivers), first=0)
        case Broadcast():
            return _Fixed(everyone, rows_to=everyone)
        case Global():
            return _Fixed(everyone, rows_to=(0,))
        case _:
            assert_never(partitioning)


def hash_split(batch: pl.DataFrame, keys: Sequence[str], parallelism: int, max_parallelism: int) -> Split:
    """Splits by the subtask that owns each row's key group. Rows keep their order; targets without rows are omitted."""
    if parallelism == 1:
        return ((0, Rows.all_of(batch)),)
    by_target = split_order(batch, keys, parallelism, max_parallelism)
    if by_target is not None:
        return _parts(batch, *by_target)
    owner = _owners(parallelism, max_parallelism)
    return split_by(batch, owner[key_groups(batch, keys, max_parallelism)], parallelism)


def split_by(batch: pl.DataFrame, targets: npt.NDArray[np.uint16], count: int) -> Split:
    """Splits by the target of each row (below `count`). Rows keep their order; targets without rows are omitted."""
    # numpy radix-sorts 16-bit integers
    order = np.argsort(targets, kind="stable").astype(np.uint32)
    return _parts(batch, order, np.bincount(targets, minlength=count))


def _parts(batch: pl.DataFrame, order: npt.NDArray[np.uint32], counts: npt.NDArray[np.int64]) -> Split:
    """The parts of a batch whose rows are ordered by target, so many for each."""
    # in Python, because there are few targets and often few rows
    present = [(target, count) for target, count in enumerate(counts.tolist()) if count]
    whole = Rows.all_of(batch)
    if len(present) == 1:
        return ((present[0][0], whole),)
    # of one chunk, because each part is gathered by itself
    chosen = Rows(batch.rechunk(), order, whole.bytes)
    parts, begin = [], 0
    for target, count in present:
        parts.append((target, chosen.slice(begin, count)))
        begin += count
    return parts


@lru_cache(maxsize=64)
def _owners(parallelism: int, max_parallelism: int) -> npt.NDArray[np.uint16]:
    """The subtask that owns each key group."""
    owners = [subtask_of(group, parallelism, max_parallelism) for group in range(max_parallelism)]
    return np.array(owners, dtype=np.uint16)


def _own_targets(subtask: int, senders: int, receivers: int) -> tuple[int, ...]:
    """The receivers of one sender of a rescale edge: every receiver has a sender, and every sender a receiver."""
    if senders >= receivers:
        return (subtask * receivers // senders,)
    return tuple(target for target in range(receivers) if target * senders // receivers == subtask)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Whole batches, always to the same subtasks."""

    targets: tuple[int, ...]
    rows_to: tuple[int, ...]

    def split(self, batch: pl.DataFrame) -> Split:
        rows = Rows.all_of(batch)
        return tuple((target, rows) for target in self.rows_to)


@dataclass(frozen=True, slots=True)
class _HashPartitioner:
    """Splits by the subtask that owns the row's key group."""

    keys: tuple[str, ...]
    targets: tuple[int, ...]
    max_parallelism: int

    def split(self, batch: pl.DataFrame) -> Split:
        return hash_split(batch, self.keys, len(self.targets), self.max_parallelism)


class _RoundRobin:
    """Sends whole batches to one target after the other, beginning with target `first`. Senders of a rebalance edge
    begin with different targets, so that load is spread."""

    def __init__(self, targets: tuple[int, ...], first: int) -> None:
        self.targets = targets
        self._next = first % len(targets)

    def split(self, batch: pl.DataFrame) -> Split:
        target = self.targets[self._next]
        self._next = (self._next + 1) % len(self.targets)
        return ((target, Rows.all_of(batch)),)
