"""The subtasks of a simulated slot: a source that reads ranges of rows, and a task that counts and writes them.

They are two threads in a real slot. Here one object moves both: rows pass from one to the other at once, ends of input
and barriers of a sink without transactions a little later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import CommittableDocument, SubtaskDocument
from headrace.core.source_state import SourceState, SplitState
from headrace.rpc.messages import Failure
from headrace.worker.control import Assign, AssignedSplit, Command, Trigger
from headrace.worker.slot.attempt.events import Broken, TaskEnded
from sim.external.outside import SINK, SOURCE, TOPIC, Range
from sim.processes.chunks import Chunks, RowGroup
from sim.processes.uploads import Snapshot
from sim.processes.writer import Writer
from sim.world import ViolationError

if TYPE_CHECKING:
    from sim.processes.slot import Slot
    from sim.processes.worker import Worker

COUNT = "count"
TASKS = (SOURCE, COUNT)
STEP_MS = 700
SLOW_MS = (20_000, 60_000)
"""How long a thread that waits for a client takes to see that it is to end."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the simulation's Deploy carries. restore: row groups of all subtasks' chunks; reused: checkpoints may name
    them again."""

    index: int
    restore: tuple[RowGroup, ...]
    reused: bool

    def to_bytes(self) -> bytes:
        """As it travels."""
        return json.dumps([self.index, self.restore, self.reused]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Deployment:
        """What `to_bytes` made."""
        index, restore, reused = json.loads(data)
        return cls(index, tuple((path, number) for path, number in restore), reused)


@dataclass(slots=True)
class _Reading:
    """A partition. staged: up to here its rows are in a part of the sink."""

    position: int
    stop: int | None
    staged: int

    @property
    def at_end(self) -> bool:
        return self.position == self.stop


@dataclass(frozen=True, slots=True)
class _Part:
    epoch: int
    rows: tuple[Range, ...]


class Subtasks:
    """Both subtasks of one slot. ended: tasks that have reached the end of their input."""

    def __init__(self, slot: Slot, worker: Worker, deployment: Deployment) -> None:
        self._slot = slot
        self._world = slot.world
        self._worker = worker
        self._deployment = deployment
        self._read: dict[int, _Reading] = {}
        self._restored = Chunks()
        self._parts: list[_Part] = []
        self._writer: Writer | None = None
        self._assigned = False
        self._final = False
        self._halted = False
        self._ends_ms: int | None = None
        self.opened = False
        self.started = False
        self.broken = False
        self.ended: set[str] = set()

    # ---- threads -------------------------------------------------------------------------------------------------

    def open(self) -> Failure | None:
        """Restores the state and opens the writer; returns what went wrong."""
        if not self._worker.is_newest(self._slot.attempt):
            # it slept: what it was to restore may be pruned by now
            return Failure("a file is missing", "external", retry=True)
        self._restored = Chunks.restored(self._worker.storage.objects.held, self._deployment.restore)
        if self._worker.brokers is not None:
            terms = self._worker.writer_terms(self._slot.attempt, self._deployment.index)
            fenced = Failure("fenced", "external", retry=True)
            self._writer = Writer(self._slot, self._worker.brokers, terms, lambda: self._break(COUNT, fenced))
        self.opened = True
        return None

    @property
    def reused(self) -> Chunks:
        """What checkpoints may name again, of all partitions: also of those that go to other subtasks."""
        return self._restored if self._deployment.reused else Chunks()

    def start(self) -> None:
        """The threads run."""
        self.started = True
        self._step()

    def finish(self) -> None:
        """Their loops are left when they hear of it; until then they go on."""
        self._end_within(self._world.between(1, 500))

    def cancel(self) -> None:
        """Their loops are left whatever they wait for; but a client that hangs does not let go."""
        slow = self._world.happens(0.05)
        self._end_within(self._world.between(*SLOW_MS) if slow else self._world.between(1, 500))

    def _end_within(self, delay_ms: int) -> None:
        ends_ms = self._world.now_ms + delay_ms if self.started else self._world.now_ms
        self._ends_ms = ends_ms if self._ends_ms is None else min(ends_ms, self._ends_ms)

    @property
    def late_ms(self) -> int:
        """How long its threads still take to end."""
        if not self.started:
            return 0
        return 1_000_000 if self._ends_ms is None else max(self._ends_ms - self._world.now_ms, 0)

    @property
    def late(self) -> tuple[str, ...]:
        """Tasks whose threads run."""
        return TASKS if self.late_ms else ()

    def _break(self, task: str, failure: Failure) -> None:
        if not self.broken:
            self.broken = True
            self._slot.put(Broken(failure), f"{task} fails: {failure.message}")

    # ---- commands ------------------------------------------------------------------------------------------------

    def tell(self, commands: Mapping[str, Command]) -> None:
        """Commands for sources, of which there is one."""
        match commands.get(SOURCE):
            case Assign(splits, final):
                for split in splits:
                    self._assign(split)
                self._assigned = True
                self._final = self._final or final
            case Trigger(epoch, stop):
                if self.late and not self.broken:
                    self._barrier(epoch, stop=stop)
            case _:
                pass

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Everything up to the epoch is committed."""
        if self._writer is not None:
            self._writer.committed(epoch, successors)
        self._parts = [part for part in self._parts if part.epoch > epoch]

    def _assign(self, assigned: AssignedSplit) -> None:
        split, partition = assigned.split, assigned.split.id.partition
        if not self.opened:
            raise ViolationError(f"slot {self._slot.name} is not open, but has told that it is")
        if partition in self._read:
            raise ViolationError(f"partition {partition} is assigned twice to slot {self._slot.name}")
        held = self._restored.rows.get(partition, 0)
        if held != split.start:
            raise ViolationError(f"partition {partition} is read from {split.start}, but state holds {held} rows of it")
        self._read[partition] = _Reading(split.start, split.stop, split.start)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self._halted or self.broken or SOURCE in self.ended or not self.late:
            return
        if self._slot.orphaned and not self._worker.lax:
            self._slot.leave()
            return
        if self._assigned and (self._writer is None or not self._writer.blocked):
            self._read_on()
        self._slot.after(self._world.between(STEP_MS // 2, STEP_MS), self._step)

    def _read_on(self) -> None:
        if self._slot.poisoned:
            self._break(SOURCE, Failure("row 17 cannot be read", "user", retry=False))
            return
        rows: list[Range] = []
        for partition, reading in self._read.items():
            more = self._world.between(0, 30)
            more = more if reading.stop is None else min(more, reading.stop - reading.position)
            if self._worker.crashes_at(partition, range(reading.position, reading.position + more)):
                self._slot.crash()
                return
            if more:
                rows.append((partition, reading.position, reading.position + more))
            reading.position += more
        if self._writer is not None:
            self._writer.write(tuple(rows))
        if self._final and all(each.at_end for each in self._read.values()):
            self._end(SOURCE)
            self._slot.after(self._world.between(1, 50), lambda: self._end(COUNT))

    def _end(self, task: str) -> None:
        if self.late:
            self.ended.add(task)
            self._slot.put(TaskEnded(task))

    # ---- epochs --------------------------------------------------------------------------------------------------

    def _barrier(self, epoch: int, *, stop: bool) -> None:
        """It passes the source now; the other task as soon as its writer has flushed."""
        self._halted = self._halted or stop
        splits = tuple(_split_state(partition, each) for partition, each in sorted(self._read.items()))
        index = self._deployment.index
        source = SubtaskDocument(task=SOURCE, subtask=index, states=(), sources={SOURCE: SourceState(splits)})
        self._slot.snapshotted(epoch, Snapshot(source))
        counted = {partition: each.position for partition, each in self._read.items()}
        rows = tuple((p, each.staged, each.position) for p, each in self._read.items() if each.staged < each.position)
        for each in self._read.values():
            each.staged = each.position
        if self._writer is not None:
            self._writer.flush(epoch, lambda prepared: self._counted(epoch, counted, prepared))
            return
        if self._worker.commits:
            self._parts.append(_Part(epoch, rows))
        else:
            self._worker.appended.append(rows)
        items = tuple(self._committable(part) for part in self._parts if part.rows)
        self._slot.after(self._world.between(1, 50), lambda: self._counted(epoch, counted, items))

    def _counted(self, epoch: int, counted: dict[int, int], items: tuple[CommittableDocument, ...]) -> None:
        if self.late and not self.broken:
            document = SubtaskDocument(task=COUNT, subtask=self._deployment.index, states=(), committables=items)
            self._slot.snapshotted(epoch, Snapshot(document, counted))

    def _committable(self, part: _Part) -> CommittableDocument:
        index = self._deployment.index
        name = f"{self._slot.attempt}-{part.epoch}-{index}-{self._slot.name}"
        return CommittableDocument(
            sink=SINK, subtask=index, epoch=part.epoch, payload={"part": name, "rows": part.rows}
        )


def _split_state(partition: int, reading: _Reading) -> SplitState:
    return SplitState(TOPIC, partition, reading.position, finished=reading.at_end)
