"""The state of one partition of a task: restores its operators, and writes their states.

whole    all state is read and written: a replay, a savepoint, the first increment after a rescale
deltas   operators that support it (`aggregation.deltas`) read the units that they need and write new ones; other units
         stay as they are, and the manifest names them again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.paths import state_path
from headrace.checkpoint.stores.opening import open_folder, read_url
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.operators.aggregation.deltas import DeltaOperator, Portion
from headrace.operators.operator import Operator
from headrace.plan.physical import PhysicalPlan, Task
from headrace.spark.levels.levels import reads_source
from headrace.spark.task.earlier_state import WrittenUnits, carries_over, written_units
from headrace.spark.task.order import JobOrder
from headrace.state.redistribute import group_span
from headrace.state.snapshot import Chunk, StateSnapshot
from headrace.worker.state.restore import NodeStates, restored_states
from headrace.worker.state.state_files import write_whole

Given = Sequence[tuple[str, StateSnapshot]]
"""(node, one of its states), as collected at a barrier."""


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

    def resume(self, node: str, operator: Operator) -> bool:
        """Lets an operator continue with its units in place. Returns whether it did."""
        if not self._goes_on(node):
            return False
        if isinstance(operator, DeltaOperator):
            earlier = self._earlier[node] = written_units(self._before[node], self._index, read_url)
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
            read=read_url,
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

    def keep(self, given: Given, operators: Mapping[str, Operator]) -> None:
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

        files, columns = write_whole(state.chunks, write)
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
