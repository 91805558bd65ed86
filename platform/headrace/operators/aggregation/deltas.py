"""State in increments: an operator that goes on from earlier state without reading all of it, and writes what is new.

An engine that runs in increments keeps a node's earlier state as **units**: rows that were written together, of all its
states, with a **place** that says in the operator's own words what they are about. What the operator takes is its own
from then on; what it leaves stays where it is, unread, and belongs to the state all the same.

    resume(earlier)     takes what it needs to begin; later, with rows and time, what these need
    portions()          what it holds now, cut into what may be taken together: new units. Nothing of what it left
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.operators.operator import Operator
from headrace.state.snapshot import RestoredStates, StateSnapshot

Place = tuple[int, ...]
"""What rows are about. Empty: nobody said."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that were written together. id: ascending with the time of writing; rows: over all states."""

    id: tuple[int, int]
    place: Place
    rows: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows that are to be a unit."""

    place: Place
    states: tuple[StateSnapshot, ...]


class EarlierState(Protocol):
    """A node's state as it was written, for one subtask."""

    @property
    def units(self) -> Sequence[Unit]:
        """What was not taken yet, by id."""
        ...

    @property
    def crowded(self) -> Collection[Unit]:
        """Units that are small and many, when it is made: to be taken at the beginning, so that they become fewer."""
        ...

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Reads these; they are the operator's. Raises ExternalError."""
        ...


@runtime_checkable
class DeltaOperator(Operator, Protocol):
    """An operator that can go on so."""

    def resume(self, earlier: EarlierState) -> None:
        """In place of `restore`. The operator keeps `earlier`, and may take from it until its last batch and
        watermark."""
        ...

    def portions(self) -> Sequence[Portion]:
        """In place of `snapshot`, at the end: all that it holds, whether it was resumed or restored."""
        ...


class NothingEarlier:
    """The earlier state of an operator that was not resumed."""

    units: Sequence[Unit] = ()
    crowded: Collection[Unit] = ()

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Nothing."""
        return {}
