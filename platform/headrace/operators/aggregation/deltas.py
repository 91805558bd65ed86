"""Incremental state: an operator continues from earlier state without reading all of it, and writes only new state.

An engine that runs in increments (Spark's `follow`) stores a node's earlier state as **units**. A unit is a set of rows
of all the node's states that were written together. It has a **place**, which the operator chose to find the unit
again: a key bucket (`running`), or the end of a window. The operator owns the units that it has read. Units that it
has not read stay in storage, and are still part of the state.

    resume(earlier)     reads the units needed to begin; later rows and watermarks make the operator read more
    portions()          the state in memory, divided into new units; without the units that it has not read
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.operators.operator import Operator
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
    """Rows that are to become one unit."""

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

    def portions(self) -> Sequence[Portion]:
        """Called instead of `snapshot`, at the end of an increment. Returns all state in memory, whether the operator
        was resumed or restored."""
        ...


class NothingEarlier:
    """The earlier state of an operator that was not resumed."""

    units: Sequence[Unit] = ()
    crowded: Collection[Unit] = ()

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Returns no states."""
        return {}
