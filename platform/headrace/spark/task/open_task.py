"""One plan task in a Spark task: its chain, opened as a worker opens it, its output, and its report.

    level_run ──rows, time──> chain ──> outlets ──> ready: blobs for other tasks
                                               └─────> staged result rows, states ──> report

The chain is the worker's (`worker.task.build`): operators do not know which engine runs them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import SubtaskDocument
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.clock import SystemClock
from headrace.core.source_state import SourceState
from headrace.operators.chain import Receiver
from headrace.operators.operator import OnError
from headrace.plan.contexts import sink_context
from headrace.plan.physical import PhysicalPlan, SinkSpec, Task
from headrace.spark.levels.envelope import Envelope, Kind
from headrace.spark.levels.levels import Levels
from headrace.spark.task.order import JobOrder, StagedShare, TaskReport
from headrace.spark.task.output.outlets import Outgoing, outgoing
from headrace.spark.task.output.staging_end import CheckedSink, StagedSink, open_checks
from headrace.spark.task.states import TaskStates
from headrace.state.snapshot import StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.restore import NodeStates
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.build import ChainBuilder, SubtaskContext
from headrace.worker.task.refused_rows import RefusedRows
from headrace.worker.task.source_task import SourceTiming


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
    """The live parts of one partition of a task: its chain, or one chain after the other for shares of its keys.
    `ready`: blobs to return to Spark.
    """

    order: JobOrder
    plan: PhysicalPlan
    levels: Levels
    task: Task
    index: int
    store: ObjectStore
    snapshots: SubtaskSnapshots = field(init=False)
    ready: deque[Envelope] = field(default_factory=deque)
    counters: dict[str, Counter[str]] = field(default_factory=dict)
    _taken: _Taken = field(default_factory=_Taken)
    _chains: list[ChainBuilder] = field(default_factory=list)
    _sinks: list[StagedSink] = field(default_factory=list)
    _states: TaskStates = field(init=False)
    _outgoing: Outgoing = field(init=False)

    def __post_init__(self) -> None:
        self.snapshots = SubtaskSnapshots(self.task.name, self.index, self._taken, self.counters)
        self._states = TaskStates(self.order, self.plan, self.task, self.index)
        self._outgoing = outgoing(
            self.plan, self.levels, self.task.name, self.index, ready=self.ready, counters=self.counters
        )

    def open_chain(self, restored: NodeStates | None = None) -> ChainBuilder:
        """Opens the task's chain with a share's state from disk; None: with the state that the job begins with."""
        if restored is None:
            restored = self._states.restored()
            resume = self._states.resume
        else:
            resume = None
        context = self._context(restored)
        chain = ChainBuilder(self.task, context, self._outgoing.ends, self._open_sink, resume)
        self._chains.append(chain)
        return chain

    def _context(self, restored: NodeStates) -> SubtaskContext:
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
            restored=restored,
            hand_over=order.hand_over,
        )

    @property
    def width(self) -> int:
        """Partitions of the task."""
        return self.levels.stations[self.task.name].width

    def _open_sink(self, spec: SinkSpec, counters: Counter[str], refused: RefusedRows) -> Receiver:
        order = self.order
        sink = StagedSink(spec, self.store, counters, attempt=order.attempt, epoch=order.epoch, subtask=self.index)
        self._sinks.append(sink)
        # who only looks at the rows gets all of them, but for those that leave by `on_error`
        if not order.publish and spec.on_error is OnError.FAIL and not spec.implicit:
            return sink
        context = sink_context(
            spec, order.job, self.index, parallelism=self.width, terms=self.plan.checkpoint, attempt=order.attempt
        )
        return CheckedSink(spec, open_checks(spec, context), sink, refused)

    def take_ready(self) -> Iterator[Envelope]:
        """Returns the complete blobs."""
        while self.ready:
            yield self.ready.popleft()

    def take_states(self) -> list[tuple[str, StateSnapshot]]:
        """Returns all of the task's state after a barrier: the chain's snapshot, and the units that it had left
        unread.
        """
        return self._states.with_left(self._given())

    def keep_states(self) -> None:
        """Writes the states of the chain that a barrier has just passed, as part of the task's state."""
        self._states.keep(self._given(), self._chains[-1].steps)

    def _given(self) -> list[tuple[str, StateSnapshot]]:
        self.snapshots.complete(self.order.epoch)
        assert self._taken.snapshot is not None, "the barrier has passed"
        return list(self._taken.snapshot.states)

    def finish(self, source: tuple[str, SourceState] | None = None) -> Iterator[Envelope]:
        """Called after `keep_states`: returns the remaining blobs and the report. `source`: a source task's state."""
        for outlet in self._outgoing.outlets:
            outlet.finish()
        yield from self.take_ready()
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
        """Closes readers and operators."""
        while self._chains:
            self.drop_chain(self._chains[0])

    def drop_chain(self, chain: ChainBuilder) -> None:
        """Closes a chain after its snapshot, and drops the references to its state."""
        self._chains.remove(chain)
        for part in chain.opened:
            part.close()


def open_task(order: JobOrder, plan: PhysicalPlan, levels: Levels, task: str, index: int) -> OpenTask:
    """Opens partition `index` of a task."""
    return OpenTask(order, plan, levels, plan.task(task), index, open_store(order.storage))
