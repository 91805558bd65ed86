"""The state of one node and subtask from earlier increments, in units, and the units that stay unchanged.

A file that is part of a unit has its `FilePart.portion`: epoch, number, and the operator's place. Files without one
form one unit without a place. The units that an operator takes are read; the others are carried over by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.operators.aggregation.deltas import Unit
from headrace.state.redistribute import group_span
from headrace.state.snapshot import RestoredStates
from headrace.worker.state.restore import ReadFile, checked_rows

UNITS_MAX = 32
"""Units of a node before the newest ones are merged."""
_GROWTH = 2
"""A unit is merged with newer ones if its rows are at most this many times all of theirs."""
UNPLACED = (0, 0)


@dataclass(slots=True)
class WrittenUnits:
    """Implements `operators.aggregation.deltas.EarlierState`."""

    _files: dict[Unit, list[tuple[str, FilePart]]]
    _read: ReadFile
    crowded: tuple[Unit, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.crowded = crowded(list(self._files))

    @property
    def units(self) -> Sequence[Unit]:
        """The units that were not taken, by id."""
        return list(self._files)

    def take(self, units: Iterable[Unit]) -> RestoredStates:
        """Reads these units."""
        taken: dict[str, list[pl.DataFrame]] = {}
        for unit in units:
            for state, part in self._files.pop(unit):
                taken.setdefault(state, []).extend(checked_rows(part, self._read))
        return taken

    def left(self, state: str) -> list[FilePart]:
        """Returns the files of one state that were not taken."""
        return [part for parts in self._files.values() for name, part in parts if name == state]


def crowded(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Returns the newest units that are worth merging, if there are more than UNITS_MAX. Each row is thus rewritten a
    logarithmic number of times.
    """
    placed = sorted((unit for unit in units if unit.place), key=lambda unit: unit.id, reverse=True)
    if len(placed) <= UNITS_MAX:
        return ()
    taken, rows = [placed[0]], placed[0].rows
    for unit in placed[1:]:
        if unit.rows > _GROWTH * rows:
            break
        taken.append(unit)
        rows += unit.rows
    return tuple(taken) if len(taken) > 1 else ()


def written_units(handles: Sequence[StateHandle], subtask: int, read: ReadFile) -> WrittenUnits:
    """Returns the units that a subtask wrote for one node. handles: of all its states and subtasks."""
    found: dict[tuple[int, ...], list[tuple[str, FilePart]]] = {}
    for handle in handles:
        if handle.subtask == subtask:
            for part in handle.files:
                found.setdefault(part.portion or UNPLACED, []).append((handle.state, part))
    files = {
        Unit((portion[0], portion[1]), tuple(portion[2:]), sum(part.rows for _, part in parts)): parts
        for portion, parts in sorted(found.items())
    }
    return WrittenUnits(files, read)


def carries_over(handles: Sequence[StateHandle], folder: str, *, parallelism: int, max_parallelism: int) -> bool:
    """Whether a node's state can be used in place: it is in the job's own folder, and was written at the current
    parallelism.
    """
    inside = f"{folder.rstrip('/')}/"
    return bool(handles) and all(
        handle.subtask < parallelism
        and (handle.first_group, handle.last_group) == group_span(handle.subtask, parallelism, max_parallelism)
        and all(part.path.startswith(inside) for part in handle.files)
        for handle in handles
    )
