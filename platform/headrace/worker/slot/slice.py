"""One parallel slice of a job in a slot: the subtasks with one index, their mailboxes, threads and counters.

Opens, starts, finishes or cancels, joins and closes them. The caller decides when (`worker.slot.attempt.machine`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.connect.format import PreparedFormats
from headrace.connect.sink import CommittedWriter
from headrace.core.clock import Clock
from headrace.core.source_state import AppliedFloor
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.outlet import Outlet
from headrace.exchange.output import Channel, EdgeOutput
from headrace.exchange.traffic import NodeBytes
from headrace.operators.chain import Link
from headrace.plan.physical import PhysicalPlan, SourceSpec, Task, keys_of
from headrace.state.place import StatePlace
from headrace.state.snapshot import RestoredStates
from headrace.worker.control import Command, Finish, SubtaskEvents
from headrace.worker.lease import Lease
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.build import ChainBuilder, FindOutlet, SubtaskContext, outgoing
from headrace.worker.task.key_sample import KeySample
from headrace.worker.task.node_time import NodeTime
from headrace.worker.task.sink_task import SinkTask
from headrace.worker.task.source_task import SourceTask, SourceTiming
from headrace.worker.task.subtask import Subtask
from headrace.worker.wiring import Wiring, wire


@dataclass(frozen=True, slots=True)
class SliceOptions:
    """The options of a slice.

    index      of its subtasks
    aligned    gates align barriers (exactly-once)
    hand_over  the end of the input closes no window
    attempt    number of the job's attempt
    """

    job: str
    index: int
    aligned: bool = True
    watermark_interval_ms: int = 100
    floors: tuple[AppliedFloor, ...] = ()
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    lease: Lease | None = None
    hand_over: bool = False
    attempt: int = 0


@dataclass(slots=True)
class OpenSubtask:
    """An open subtask. `loop` is a SourceTask if the task begins with a source (`source`: its name).

    traffic, times   node -> its bytes, its time
    links, sinks     its steps and sinks by node
    places           where its steps keep their rows, by node
    """

    task: Task
    index: int
    thread: SubtaskThread
    counters: dict[str, Counter[str]]
    edges: tuple[EdgeOutput, ...]
    loop: SourceTask | Subtask
    mailbox: Mailbox | None
    source: str | None
    traffic: dict[str, NodeBytes]
    times: dict[str, NodeTime] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    sinks: dict[str, SinkTask] = field(default_factory=dict)
    places: dict[str, StatePlace] = field(default_factory=dict)

    @property
    def waited_ms(self) -> float:
        """How long the subtask has waited for input so far."""
        return self.loop.waited.ms

    @property
    def backpressured_ms(self) -> float:
        """How long the subtask has waited for room in its outlets so far."""
        return sum(edge.waited_ms for edge in self.edges)


class Slice:
    """The subtasks of one slot."""

    def __init__(
        self,
        plan: PhysicalPlan,
        options: SliceOptions,
        events: SubtaskEvents,
        clock: Clock,
        *,
        wiring: Wiring | None = None,
        place: StatePlace | None = None,
    ) -> None:
        """wiring: of the plan, the same for all slices; None: computed here. place: where the steps keep their rows,
        the same for all slices of a process; None: in memory."""
        self.plan = plan
        self.index = options.index
        self._options = options
        self._events = events
        self._clock = clock
        self._wiring = wire(plan) if wiring is None else wiring
        self._threads: list[SubtaskThread] = []
        self.tasks = tuple(task for task in plan.tasks if options.index < task.parallelism)
        self.subtasks: list[OpenSubtask] = []
        self.place = StatePlace(plan.max_parallelism) if place is None else place
        """Where the steps keep their rows."""
        self.mailboxes: dict[str, Mailbox] = {
            task.name: Mailbox(
                self._wiring.channels[task.name][options.index],
                options.bounds,
                merge_rows_max=plan.batch_rows_max,
                aligned=options.aligned,
            )
            for task in self.tasks
            if task.name in self._wiring.channels
        }

    @property
    def fed_slots(self) -> frozenset[int]:
        """Indices of the other slots that a subtask of this one sends to."""
        index = self._options.index
        targets = {
            target
            for (_, subtask), sender in self._wiring.senders.items()
            if subtask == index
            for target in sender.channels
        }
        return frozenset(targets - {index})

    # ---- opening -----------------------------------------------------------------------------------------------------

    def open(
        self,
        restored: Callable[[Task], Mapping[str, RestoredStates]],
        remote: FindOutlet,
        formats: PreparedFormats | None = None,
    ) -> None:
        """Opens every subtask, the last task first.

        restored   task -> node -> this subtask's share of the node's states
        remote     finds the outlet to a subtask of another slot
        formats    what formats have prepared
        """

        def find(task: str, subtask: int, number: int) -> Outlet:
            if subtask == self._options.index:
                return Channel(self.mailboxes[task], number)
            return remote(task, subtask, number)

        for task in reversed(self.tasks):
            self._open(task, restored(task), find, formats or {})

    def _open(
        self, task: Task, restored: Mapping[str, RestoredStates], find: FindOutlet, formats: PreparedFormats
    ) -> None:
        options = self._options
        counters: dict[str, Counter[str]] = {}
        traffic: dict[str, NodeBytes] = {}
        times: dict[str, NodeTime] = {}
        snapshots = SubtaskSnapshots(task.name, options.index, self._events, counters)
        context = SubtaskContext(
            pipeline=self.plan.pipeline,
            job=options.job,
            subtask=options.index,
            parallelism=task.parallelism,
            snapshots=snapshots,
            clock=self._clock,
            timing=SourceTiming(self.plan.batch_delay_ms, options.watermark_interval_ms),
            hand_over=options.hand_over,
            poll_rows_max=self.plan.batch_rows_max,
            floors=options.floors,
            counters=counters,
            traffic=traffic,
            times=times,
            restored=restored,
            formats=formats,
            lease=options.lease,
            terms=self.plan.checkpoint,
            attempt=options.attempt,
            place=self.place,
        )
        ends = outgoing(self.plan, self._wiring, task.name, options.index, find, traffic=traffic)
        builder = ChainBuilder(task, context, ends)
        # added before its first part opens: if a later part fails to open, `close` closes those that are open
        thread = SubtaskThread(f"{task.name}-{options.index}", builder.opened)
        self._threads.append(thread)
        head = task.nodes[0]
        mailbox = self.mailboxes.get(task.name)
        loop: SourceTask | Subtask
        if isinstance(head, SourceSpec):
            loop = builder.source()
            thread.leave = loop.leave
        else:
            assert mailbox is not None, f"task {task.name} reads from nobody"
            loop = Subtask(mailbox, builder.inputs(), snapshots, self._key_sample(task))
        thread.run = loop.run
        edges = tuple(end for receivers in ends.values() for end in receivers if isinstance(end, EdgeOutput))
        source = head.node if isinstance(head, SourceSpec) else None
        parts = (counters, edges, loop, mailbox, source, traffic, times, builder.links, builder.sinks, builder.places)
        self.subtasks.append(OpenSubtask(task, options.index, thread, *parts))

    def _key_sample(self, task: Task) -> KeySample | None:
        """The sample of the keys of a task whose rows are divided among several subtasks by key."""
        keys = keys_of(self.plan.inputs(task.name))
        if task.parallelism == 1 or keys is None:
            return None
        return KeySample(task.name, keys, self.plan.max_parallelism, self._clock)

    # ---- running -----------------------------------------------------------------------------------------------------

    def start(self, guard: Callable[[str, Callable[[], None]], None]) -> None:
        """Starts a thread for each subtask, which runs `guard(task, loop)`."""
        for opened in self.subtasks:
            opened.thread.start(_named(guard, opened.task.name))

    @property
    def sources(self) -> Mapping[str, SourceTask]:
        """Source name -> its subtask here."""
        return {
            opened.source: opened.loop
            for opened in self.subtasks
            if opened.source is not None and isinstance(opened.loop, SourceTask)
        }

    def tell(self, commands: Mapping[str, Command]) -> None:
        """Passes commands to sources by name; ignores sources without a subtask in this slice."""
        for source, task in self.sources.items():
            if source in commands:
                task.tell(commands[source])

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Tells writers that everything up to the epoch is committed: they may reuse their transaction names.

        successors: transactional id -> its replacement.
        """
        for opened in self.subtasks:
            for part in opened.thread.parts:
                if isinstance(part, CommittedWriter):
                    part.committed(epoch, successors)

    def finish(self) -> None:
        """Makes every loop return. To be called once all output is committed."""
        for opened in self.subtasks:
            match opened.loop:
                case SourceTask():
                    opened.loop.tell(Finish())
                case Subtask():
                    opened.loop.finish()

    def cancel(self) -> None:
        """Ends every loop with TaskCancelledError, also one that waits for input or for room."""
        for source in self.sources.values():
            source.cancel()
        for mailbox in self.mailboxes.values():
            mailbox.cancel()

    @property
    def alive(self) -> list[str]:
        """Names of the threads that were started and have not ended."""
        return [thread.name for thread in self._threads if thread.alive]

    def join(self, timeout_s: float, waiting: Callable[[], None] = lambda: None) -> list[str]:
        """Waits for all threads, at most `timeout_s` seconds; returns the names of those that still run.

        `waiting` is called about 20 times a second meanwhile.
        """
        join_all(self._threads, timeout_s, waiting)
        return self.alive

    def close(self) -> list[Exception]:
        """Closes the parts of every thread that has ended; returns the errors of parts that failed to close."""
        return [error for thread in self._threads if not thread.alive for error in close_all(thread.parts)]


def _named(guard: Callable[[str, Callable[[], None]], None], task: str) -> Callable[[Callable[[], None]], None]:
    return lambda run: guard(task, run)


# ---- the thread of a subtask -----------------------------------------------------------------------------------------
# The thread of a subtask, with the reader, operators and writers that only this thread uses.
#
# The parts are closed after the thread has ended; a part that fails to close does not keep the others open. The parts
# of a thread that does not end (its client waits for a broker, say) stay open: closing a native client while a thread
# uses it could crash the process.


class Part(Protocol):
    """A part of a subtask that must be closed: a reader, an operator or a writer."""

    def close(self) -> None:
        """Releases the part's resources. Idempotent."""
        ...


@dataclass(slots=True)
class SubtaskThread:
    """One subtask. `parts` grows while it is opened; `run` is set when it is complete.

    leave   called in the thread after `run`, whether or not it raised: waits until no other thread uses the parts
    """

    name: str
    parts: Sequence[Part]
    run: Callable[[], None] | None = None
    leave: Callable[[], None] | None = None
    _thread: threading.Thread | None = None

    def start(self, guard: Callable[[Callable[[], None]], None]) -> None:
        """Runs `guard(run)` in a thread of its own, which does not keep the process alive."""
        assert self.run is not None, "a subtask is opened before it starts"
        thread = threading.Thread(target=self._main, args=(guard, self.run), name=self.name, daemon=True)
        thread.start()
        self._thread = thread

    def _main(self, guard: Callable[[Callable[[], None]], None], run: Callable[[], None]) -> None:
        # the guard reports an error of `run` before `leave` waits: a call that hangs in a part must not hide it
        guard(run)
        if self.leave is not None:
            self.leave()

    @property
    def alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Waits until the thread has ended, at most `timeout_s` seconds."""
        if self._thread is not None:
            self._thread.join(timeout_s)


def join_all(threads: Iterable[SubtaskThread], timeout_s: float, waiting: Callable[[], None]) -> None:
    """Waits until all threads have ended, at most `timeout_s` seconds. Calls `waiting` about 20 times a second."""
    deadline = time.monotonic() + timeout_s
    for item in threads:
        while item.alive and time.monotonic() < deadline:
            item.join(0.05)
            if item.alive:
                waiting()


def close_all(parts: Iterable[Part]) -> list[Exception]:
    """Closes every part; returns the errors of those that failed to close."""
    failures: list[Exception] = []
    for part in parts:
        try:
            part.close()
        except Exception as error:
            failures.append(error)
    return failures
