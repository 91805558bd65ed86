"""Incremental state: an operator continues from earlier state without reading all of it, and writes only new state.

An engine that runs in increments stores a node's earlier state as **units**: rows of all its states that were written
together, with a **place** that the operator chose (a key bucket, a window end). The operator owns the units it has
read. Units that it has not read stay in storage, and are still part of the state.

    resume(earlier)     reads the units needed to begin; later rows and watermarks make it read more
    portions()          its state in memory, cut into new units; without the units that it has not read
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.operators.operator import Operator
from headrace.state.snapshot import RestoredStates, StateSnapshot

Place = tuple[int, ...]
"""The subject of a unit, in the operator's terms. Empty: none recorded."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that were written together. id: ascending with the time of writing; rows: over all states."""

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
        """Small units that were too numerous at the start: the operator reads them first, so that they are merged."""
        ...

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Reads these units; the operator owns them from now on. Raises ExternalError."""
        ...


@runtime_checkable
class DeltaOperator(Operator, Protocol):
    """An operator with incremental state."""

    def resume(self, earlier: EarlierState) -> None:
        """Replaces `restore`. The operator keeps `earlier`, and may read from it until its last batch and watermark."""
        ...

    def portions(self) -> Sequence[Portion]:
        """Replaces `snapshot`, at the end: all state in memory, whether the operator was resumed or restored."""
        ...


class NothingEarlier:
    """The earlier state of an operator that was not resumed."""

    units: Sequence[Unit] = ()
    crowded: Collection[Unit] = ()

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Returns no states."""
        return {}
