"""Incremental state: an operator continues from earlier state without reading all of it, and writes only new state.

An engine that runs in increments (Spark's `follow`) stores a node's earlier state as **units**. A unit is a set of rows
of all the node's states that were written together. It has a **place**, which the operator chose to find the unit
again: a key bucket (`running`), or the end of a window. The operator owns the units that it has read. Units that it
has not read stay in storage, and are still part of the state.

    resume(earlier)     reads the units needed to begin; later rows and watermarks make the operator read more
    portions()          the state that it has, divided into new units; without the units that it has not read
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from headrace.kernels.group.key_hash import key_hash
from headrace.operators.operator import Operator
from headrace.state.place import Budget
from headrace.state.snapshot import RestoredStates, StateSnapshot

Place = tuple[int, ...]
"""The place of a unit; only the operator interprets it. Empty: the unit has none, and is read by `resume`."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that were written together. id: ascending in the order of writing; rows: number over all states."""

    id: tuple[int, int]
    place: Place
    rows: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of a unit. Portions with one place become one unit."""

    place: Place
    states: tuple[StateSnapshot, ...]


class EarlierState(Protocol):
    """A node's state as it was written, for one subtask."""

    @property
    def units(self) -> Sequence[Unit]:
        """The units that are not read yet, by id."""
        ...

    @property
    def crowded(self) -> Collection[Unit]:
        """The newest units, if there are too many units at the start. An operator may read them in `resume`: then
        `portions` writes their rows as fewer units."""
        ...

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Reads these units; the operator owns them from now on. Raises ExternalError."""
        ...


@runtime_checkable
class DeltaOperator(Operator, Protocol):
    """An operator with incremental state."""

    def resume(self, earlier: EarlierState) -> None:
        """Called instead of `restore`. The operator keeps `earlier`, and may read from it until its last batch and
        watermark."""
        ...

    def portions(self) -> Iterable[Portion]:
        """Called instead of `snapshot`, at the end of an increment. Returns all state that the operator has, whether it
        was resumed or restored. Each portion is written before the next one is made."""
        ...


class NothingEarlier:
    """The earlier state of an operator that was not resumed."""

    units: Sequence[Unit] = ()
    crowded: Collection[Unit] = ()

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Returns no states."""
        return {}


# ---- rounds ----------------------------------------------------------------------------------------------------------
# State beyond its budget is divided into units in rounds by key hash, so that one round of it is in memory at a time.

ROUNDS_MAX = 64
"""Most rounds: each one reads all rows."""


def rounds(budget: Budget) -> int:
    """The number of rounds for the states of a budget, a power of two: a round has less than half of the budget."""
    held = budget.memory_bytes + budget.file_bytes
    if budget.limit_bytes is None or held <= budget.limit_bytes:
        return 1
    return min(ROUNDS_MAX, 1 << (2 * held // max(1, budget.limit_bytes)).bit_length())


def of_round(rows: pl.DataFrame, keys: Sequence[str], number: int, of: int) -> pl.DataFrame:
    """The rows of round `number` of `of` rounds. Rows without keys are all in the first one."""
    if of == 1 or not rows.height:
        return rows
    if not keys:
        return rows if number == 0 else rows.clear()
    return rows.filter(pl.Series(key_hash(rows, keys) & np.uint64(of - 1) == np.uint64(number)))
