"""The state of one partition of a task: restores its operators, and writes their states.

whole    all state is read and written: a replay, a savepoint, the first increment after a rescale
deltas   operators that support it (`aggregation.deltas`) read the units that they need and write new ones; other units
         stay as they are, and the manifest names them again

A file that is part of a unit has its `FilePart.portion`: epoch, number, and the operator's place. Files without one
form one unit without a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.paths import state_path
from headrace.checkpoint.stores.opening import open_folder, read_url_range
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.core.group_ranges import group_span
from headrace.operators.aggregation.deltas import DeltaOperator, Portion, Unit
from headrace.operators.operator import OpenedStep
from headrace.plan.physical import PhysicalPlan, Task
from headrace.spark.levels.levels import reads_source
from headrace.spark.task.order import JobOrder
from headrace.state.snapshot import Chunk, RestoredStates, StateSnapshot
from headrace.worker.state.restore import NodeStates, ReadRange, checked_rows, restored_states
from headrace.worker.state.state_files import write_whole

Given = Sequence[tuple[str, StateSnapshot]]
"""(node, one of its states), as collected at a barrier."""
UNITS_MAX = 32
"""Units of a node before the newest ones are merged."""
_GROWTH = 2
"""A unit is merged with newer ones if its rows are at most this many times all of theirs."""
UNPLACED = (0, 0)


@dataclass(slots=True)
class _Kept:
    """The files of one state that have been written so far."""

    kind: str
    keys: tuple[str, ...]
    columns: dict[str, str] = field(default_factory=dict)
    files: list[FilePart] = field(default_factory=list)


class TaskStates:
    """Restores and writes the states of one partition. Used by the task's own thread."""

    def __init__(self, order: JobOrder, plan: PhysicalPlan, task: Task, index: int) -> None:
        self._order = order
        self._task = task
        self._index = index
        # a source task with state has one partition, however many splits it reads
        self._parallelism = 1 if reads_source(task) else task.parallelism
        self._max_parallelism = plan.max_parallelism
        self._before: dict[str, list[StateHandle]] = {node.node: [] for node in task.nodes}
        for handle in order.restore:
            if handle.node in self._before:
                self._before[handle.node].append(handle)
        self._earlier: dict[str, WrittenUnits] = {}
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._portions = 0
        self._into: ObjectStore | None = None if order.states is None else open_folder(order.states)

    # ---- the beginning -------------------------------------------------------------------------------------------

    def restored(self) -> NodeStates:
        """Returns the state of operators that read all of it."""
        return self._whole([node for node in self._before if not self._goes_on(node)])

    def resume(self, node: str, operator: OpenedStep) -> bool:
        """Lets an operator continue with its units in place. Returns whether it did."""
        if not self._goes_on(node):
            return False
        if isinstance(operator, DeltaOperator):
            earlier = self._earlier[node] = written_units(self._before[node], self._index, read_url_range)
            operator.resume(earlier)
        else:
            operator.restore(self._whole([node]).get(node, {}))
        return True

    def _goes_on(self, node: str) -> bool:
        return self._order.deltas and carries_over(
            self._before[node],
            self._order.storage,
            parallelism=self._parallelism,
            max_parallelism=self._max_parallelism,
        )

    def _whole(self, nodes: Sequence[str]) -> NodeStates:
        return restored_states(
            [handle for node in nodes for handle in self._before[node]],
            nodes,
            self._index,
            of=self._parallelism,
            max_parallelism=self._max_parallelism,
            read=read_url_range,
        )

    # ---- the end -------------------------------------------------------------------------------------------------

    def with_left(self, given: Given) -> list[tuple[str, StateSnapshot]]:
        """Returns the operators' states together with the units that they had left unread, which are read now."""
        left = {node: earlier.take(earlier.units) for node, earlier in self._earlier.items()}
        whole: list[tuple[str, StateSnapshot]] = []
        for node, state in given:
            frames = left.get(node, {}).get(state.name, ())
            chunks = (*state.chunks, *(Chunk(-1 - number, frame) for number, frame in enumerate(frames)))
            whole.append((node, StateSnapshot(state.name, state.kind, state.keys, chunks)))
        return whole

    def keep(self, given: Given, operators: Mapping[str, OpenedStep]) -> None:
        """Writes a chain's state. given: its states at the barrier; operators: its operators by node."""
        if self._into is None:
            return
        for node, state in given:
            kept = self._kept_of(node, state)
            if not (self._order.deltas and isinstance(operators.get(node), DeltaOperator)):
                self._write(self._into, kept, state, ())
        for node, operator in operators.items():
            if self._order.deltas and isinstance(operator, DeltaOperator):
                for portion in operator.portions():
                    self._write_portion(self._into, node, portion)

    def _write_portion(self, into: ObjectStore, node: str, portion: Portion) -> None:
        self._portions += 1
        mark = (self._order.epoch, self._portions, *portion.place) if portion.place else ()
        for state in portion.states:
            self._write(into, self._kept_of(node, state), state, mark)

    def _kept_of(self, node: str, state: StateSnapshot) -> _Kept:
        return self._kept.setdefault((node, state.name), _Kept(state.kind.value, state.keys))

    def _write(self, into: ObjectStore, kept: _Kept, state: StateSnapshot, mark: tuple[int, ...]) -> None:
        order = self._order

        def write(data: bytes) -> str:
            path = state_path(order.attempt, order.epoch, self._task.name, self._index, unique_part())
            into.write(path, data)
            return path

        files, columns = write_whole(state, self._max_parallelism, write=write)
        kept.files += [part.model_copy(update={"portion": mark}) for part in files]
        kept.columns |= columns

    def handles(self) -> tuple[StateHandle, ...]:
        """Returns the handles of the task's written and carried-over states; paths relative to the folder."""
        for node, earlier in self._earlier.items():
            for handle in self._before[node]:
                if handle.subtask == self._index and (left := earlier.left(handle.state)):
                    kept = self._kept.setdefault((node, handle.state), _Kept(handle.kind, handle.keys))
                    kept.columns = handle.columns | kept.columns
                    kept.files += [self._relative(part) for part in left]
        first, last = group_span(self._index, self._parallelism, self._max_parallelism)
        return tuple(
            StateHandle(
                node=node,
                state=state,
                kind=kept.kind,
                keys=kept.keys,
                subtask=self._index,
                first_group=first,
                last_group=last,
                columns=kept.columns,
                files=tuple(kept.files),
            )
            for (node, state), kept in self._kept.items()
        )

    def _relative(self, part: FilePart) -> FilePart:
        return part.model_copy(update={"path": part.path.removeprefix(f"{self._order.storage.rstrip('/')}/")})


@dataclass(slots=True)
class WrittenUnits:
    """Implements `operators.aggregation.deltas.EarlierState`."""

    _files: dict[Unit, list[tuple[str, FilePart]]]
    _read: ReadRange
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


def written_units(handles: Sequence[StateHandle], subtask: int, read: ReadRange) -> WrittenUnits:
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
