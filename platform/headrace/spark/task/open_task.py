"""One plan task in a Spark task: its chain, opened as a worker opens it, its output, and its report.

    level_run ──rows, time──> chain ──> outlets ──> ready: blobs for other tasks
                                               └─────> staged result rows, states ──> report

The chain is the worker's (`worker.task.build`): operators do not know which engine runs them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle, SubtaskDocument
from headrace.checkpoint.part_reader import ReadRange
from headrace.checkpoint.paths import state_path
from headrace.checkpoint.stores.opening import open_folder, open_store, read_url_range
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.core.clock import SystemClock
from headrace.core.group_ranges import group_span
from headrace.core.source_state import SourceState
from headrace.operators.aggregation.deltas import DeltaOperator, Place, Portion, Unit
from headrace.operators.chain import Receiver
from headrace.operators.operator import OnError, OpenedStep
from headrace.plan.contexts import sink_context
from headrace.plan.physical import PhysicalPlan, SinkSpec, Task
from headrace.spark.levels.envelope import Envelope, Kind
from headrace.spark.levels.levels import Levels, reads_source
from headrace.spark.task.order import JobOrder, StagedShare, TaskReport
from headrace.spark.task.output.outlets import Outgoing, outgoing
from headrace.spark.task.output.ready import ReadyBlobs
from headrace.spark.task.output.staging_end import CheckedSink, StagedSink, open_checks
from headrace.state.place import Budget, StatePlace
from headrace.state.snapshot import RestoredFrame, RestoredStates, StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.local_files import LocalFiles, MappedRows
from headrace.worker.state.restore import NodeStates, checked_rows, restored_states
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.state.state_files import write_whole
from headrace.worker.task.build import ChainBuilder, SubtaskContext
from headrace.worker.task.refused_rows import RefusedRows
from headrace.worker.task.source_task import SourceTiming

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
    """Restores the operators of one partition, and writes their states. Used by the task's own thread.

    whole    all state is read and written: a replay, a savepoint, the first increment after a rescale
    deltas   operators that support it (`aggregation.deltas`) read the units that they need and write new ones; other
             units stay as they are, and the manifest names them again

    A file that is part of a unit has its `FilePart.portion`: epoch, number, and the operator's place. Files without one
    form one unit without a place.
    """

    def __init__(self, order: JobOrder, plan: PhysicalPlan, task: Task, index: int, place: StatePlace) -> None:
        self._order = order
        self._place = place
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
        self._units: dict[tuple[str, Place], int] = {}
        """The number of each unit that is written: its portions share it."""
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
        number = self._units.setdefault((node, portion.place), len(self._units) + 1)
        mark = (self._order.epoch, number, *portion.place) if portion.place else ()
        for state in portion.states:
            self._write(into, self._kept_of(node, state), state, mark)

    def _kept_of(self, node: str, state: StateSnapshot) -> _Kept:
        return self._kept.setdefault((node, state.name), _Kept(state.kind.value, state.keys))

    def _write(self, into: ObjectStore, kept: _Kept, state: StateSnapshot, mark: tuple[int, ...]) -> None:
        order = self._order

        def write(data: bytes) -> str:
            path = state_path(order.attempt, order.epoch, self._task.name, self._index, unique_part())
            into.write(path, data)
            self._place.release_pages()
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
        taken: dict[str, list[RestoredFrame]] = {}
        for unit in units:
            for state, part in self._files.pop(unit):
                taken.setdefault(state, []).extend(map(RestoredFrame, checked_rows(part, self._read)))
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


@dataclass(slots=True)
class _Taken:
    """Receives the chain's snapshot."""

    snapshot: SubtaskSnapshot | None = None

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """The barrier has passed."""
        self.snapshot = snapshot

    def input_ended(self, task: str, subtask: int) -> None:
        """Does nothing: the end of the blobs is the end of the input."""


@dataclass(slots=True)
class OpenTask:
    """The live parts of one partition of a task. `ready`: blobs to return to Spark."""

    order: JobOrder
    plan: PhysicalPlan
    levels: Levels
    task: Task
    index: int
    store: ObjectStore
    place: StatePlace
    ready: ReadyBlobs
    snapshots: SubtaskSnapshots = field(init=False)
    counters: dict[str, Counter[str]] = field(default_factory=dict)
    chain: ChainBuilder = field(init=False)
    _taken: _Taken = field(default_factory=_Taken)
    _sinks: list[StagedSink] = field(default_factory=list)
    _states: TaskStates = field(init=False)
    _outgoing: Outgoing = field(init=False)

    def __post_init__(self) -> None:
        self.snapshots = SubtaskSnapshots(self.task.name, self.index, self._taken, self.counters)
        self._states = TaskStates(self.order, self.plan, self.task, self.index, self.place)
        self._outgoing = outgoing(
            self.plan, self.levels, self.task.name, self.index, ready=self.ready, counters=self.counters
        )
        self.chain = ChainBuilder(self.task, self._context(), self._outgoing.ends, self._open_sink, self._states.resume)

    def _context(self) -> SubtaskContext:
        order = self.order
        return SubtaskContext(
            pipeline=self.plan.pipeline,
            job=order.job,
            subtask=self.index,
            parallelism=self.width,
            snapshots=self.snapshots,
            clock=SystemClock(),
            timing=SourceTiming(),
            poll_rows_max=self.plan.batch_rows_max,
            floors=order.floors,
            counters=self.counters,
            terms=self.plan.checkpoint,
            attempt=order.attempt,
            restored=self._states.restored(),
            hand_over=order.hand_over,
            place=self.place,
            formats=order.formats,
        )

    @property
    def width(self) -> int:
        """Partitions of the task."""
        return self.levels.stations[self.task.name].width

    def _open_sink(self, spec: SinkSpec, counters: Counter[str], refused: RefusedRows) -> Receiver:
        order = self.order
        sink = StagedSink(
            spec, self.store, counters, attempt=order.attempt, epoch=order.epoch, subtask=self.index, place=self.place
        )
        self._sinks.append(sink)
        # who only looks at the rows gets all of them, but for those that leave by `on_error`
        if not order.publish and spec.on_error is OnError.FAIL and not spec.implicit:
            return sink
        context = sink_context(
            spec,
            order.job,
            self.index,
            parallelism=self.width,
            terms=self.plan.checkpoint,
            attempt=order.attempt,
            formats=order.formats,
        )
        return CheckedSink(spec, open_checks(spec, context, order.formats), sink, refused)

    def keep_states(self) -> None:
        """Writes the states of the chain, which a barrier has just passed."""
        self.snapshots.complete(self.order.epoch)
        assert self._taken.snapshot is not None, "the barrier has passed"
        self._states.keep(list(self._taken.snapshot.states), self.chain.steps)

    def finish(self, source: tuple[str, SourceState] | None = None) -> Iterator[Envelope]:
        """Called after `keep_states`: returns the remaining blobs and the report. `source`: a source task's state."""
        for outlet in self._outgoing.outlets:
            outlet.finish()
        yield from self.ready.take()
        yield self._report(source)

    def _report(self, source: tuple[str, SourceState] | None) -> Envelope:
        document = SubtaskDocument(
            task=self.task.name,
            subtask=self.index,
            states=self._states.handles(),
            sources={} if source is None else dict([source]),
            counters={node: dict(own) for node, own in self.counters.items()},
        )
        station = self.levels.stations[self.task.name]
        report = TaskReport(
            level=station.level, partition=station.first + self.index, document=document, staged=self._staged()
        )
        return Envelope(Kind.REPORT, len(self.levels.widths), 0, report.model_dump_json().encode())

    def _staged(self) -> tuple[StagedShare, ...]:
        """Returns one share for each sink, in its rows' order of arrival."""
        shares: dict[str, StagedShare] = {}
        for sink in self._sinks:
            own = sink.share
            if own is not None and own.rows:
                before = shares.get(own.sink)
                shares[own.sink] = own if before is None else before.followed_by(own)
        return tuple(shares.values())

    def close(self) -> None:
        """Closes readers and operators, and frees local disk."""
        for part in self.chain.opened:
            part.close()
        self.ready.close()


class TaskFiles(LocalFiles):
    """The local files of a task. A task has no epochs at which a slot releases pages: it does with each file."""

    UNUSABLE = "set spark.local.dir (on YARN the node's local folders) to folders that executors may write to"
    FULL = (
        "free space there, set spark.local.dir (on YARN the node's local folders) to larger disks, raise"
        " spark.headrace.state.bytes, or use a higher parallelism"
    )

    def kept(self, frame: pl.DataFrame) -> MappedRows:
        """The same rows, in a file. Raises UserError if there is no space."""
        made = super().kept(frame)
        self.release_pages()
        return made


def open_task(order: JobOrder, plan: PhysicalPlan, levels: Levels, task: str, index: int) -> OpenTask:
    """Opens partition `index` of a task. Raises UserError if the local disk cannot be written."""
    folder = local_disk(index)
    place = StatePlace(plan.max_parallelism, Budget(order.state_bytes_max), files=TaskFiles(folder))
    return OpenTask(
        order, plan, levels, plan.task(task), index, open_store(order.storage), place, ReadyBlobs(folder, place)
    )


def local_disk(index: int) -> Path:
    """The folder on local disk of partition `index`: Spark's, one disk after the other; else the system's."""
    named = [folder for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if (folder := Path(name)).is_dir()]
    return named[index % len(named)] if named else Path(gettempdir())
