"""A slot process: reads ranges of rows, keeps which it has read as its state, and takes its part in epochs.

Its state is a list of chunks, each a file that is written once; later checkpoints name the chunks of earlier ones of
the same attempt, and now and then all chunks are merged into one. So a checkpoint whose files were pruned, or mixed
up, cannot be restored: its chunks do not tile what was read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import CommittableDocument, FilePart, StateHandle, SubtaskDocument
from headrace.core.source_state import SourceState, SplitState
from headrace.rpc.deployment import ASSIGNED_SPLITS, AssignedSplitDocument
from headrace.rpc.messages import (
    AssignSplits,
    CancelSlot,
    EpochAborted,
    EpochCompleted,
    Failure,
    FinishSlot,
    ToSlot,
    TriggerEpoch,
)
from sim.outside import SINK, SOURCE, TOPIC, Range
from sim.world import Process, Violation
from sim.writer import Writer

if TYPE_CHECKING:
    from sim.worker import Worker

STEP_MS = 700
LEASE_MS = 10_000
Restored = dict[int, int]


@dataclass(frozen=True, slots=True)
class Deployed:
    """Said by a slot."""


@dataclass(frozen=True, slots=True)
class Acked:
    """Said by a slot."""

    epoch: int
    documents: tuple[SubtaskDocument, ...]


@dataclass(frozen=True, slots=True)
class Declined:
    """Said by a slot."""

    epoch: int


@dataclass(frozen=True, slots=True)
class InputEnded:
    """Said by a slot."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Said by a slot."""

    failure: Failure


Said = Deployed | Acked | Declined | InputEnded | Failed


@dataclass(frozen=True, slots=True)
class Deployment:
    """Told to a slot. restore: file paths of all subtasks' chunks."""

    attempt: int
    index: int
    restore: tuple[str, ...]


@dataclass(slots=True)
class _Part:
    epoch: int
    rows: tuple[Range, ...]


@dataclass(slots=True)
class _Upload:
    epoch: int
    document: SubtaskDocument
    files: list[tuple[str, bytes]]


@dataclass(slots=True)
class _Reading:
    position: int
    stop: int | None
    chunked: int
    """Up to here its rows are in a chunk."""
    staged: int
    """Up to here its rows are in a part of the sink."""


@dataclass(slots=True)
class _Work:
    """What an attempt makes of a slot."""

    deployment: Deployment
    read: dict[int, _Reading] = field(default_factory=dict)
    restored: Restored = field(default_factory=dict)
    chunks: list[str] = field(default_factory=list)
    parts: list[_Part] = field(default_factory=list)
    writer: Writer | None = None
    assigned: bool = False
    final: bool = False
    halted: bool = False
    ended: bool = False


class Slot(Process):
    """One process; runs one attempt at most."""

    def __init__(self, worker: Worker, name: str) -> None:
        super().__init__(worker.world, name)
        self._worker = worker
        self.work: _Work | None = None
        self.frozen_ms = 0
        self._files = 0
        self._uploads: list[_Upload] = []
        self._stored: set[str] = set()
        self.poisoned = False
        self.after(LEASE_MS, self._look)

    @property
    def busy(self) -> bool:
        """Whether something was deployed to it."""
        return self.work is not None

    # ---- what it is told -----------------------------------------------------------------------------------------

    def told(self, message: ToSlot | Deployment) -> None:
        """A message of the coordinator has arrived."""
        match message:
            case Deployment():
                if self.work is None:
                    self.work = _Work(message)
                    hangs = self.world.happens(self._worker.hangs)
                    self.after(600_000 if hangs else self.world.between(5, 1_500), self._open)
            case CancelSlot():
                slow = self.world.between(20_000, 60_000) if self.world.happens(0.05) else self.world.between(1, 500)
                self.after(slow, self.leave)
            case FinishSlot():
                self.after(self.world.between(1, 500), self.leave)
            case _ if self.work is None:
                pass
            case AssignSplits():
                self._assign(self.work, message)
            case TriggerEpoch():
                self._barrier(self.work, message)
            case EpochCompleted(epoch, renamed):
                if self.work.writer is not None:
                    self.work.writer.committed(epoch, {each.name: each.successor for each in renamed})
                self.work.parts = [part for part in self.work.parts if part.epoch > epoch]
            case EpochAborted():
                pass  # what was staged for it goes with the next one
            case _:
                pass

    def _open(self) -> None:
        assert self.work is not None, "something was deployed"
        held: dict[int, list[tuple[int, int]]] = {}
        if not self._worker.is_newest(self.work.deployment.attempt):
            # it slept: what it was to restore may be pruned by now
            self.fail("external", "a file is missing")
            return
        for path in self.work.deployment.restore:
            for partition, first, behind in read_chunk(self._worker.storage.objects.held, path):
                held.setdefault(partition, []).append((first, behind))
        for partition, ranges in held.items():
            self.work.restored[partition] = tiled(partition, ranges)
        if self._worker.brokers is not None:
            about = self.work.deployment
            terms = self._worker.writer_terms(about.attempt, about.index)
            self.work.writer = Writer(self, self._worker.brokers, terms, lambda: self.fail("external", "fenced"))
        self._say(Deployed())
        self._step()

    def _assign(self, work: _Work, message: AssignSplits) -> None:
        for item in ASSIGNED_SPLITS.validate_json(message.splits):
            split, position = item.split, item.split.start
            if split.partition in work.read:
                raise Violation(f"partition {split.partition} is assigned twice to slot {self.name}")
            self._require_restored(work, item)
            work.read[split.partition] = _Reading(position, split.stop, 0, position)
        work.assigned = True
        work.final = work.final or message.final

    def _require_restored(self, work: _Work, item: AssignedSplitDocument) -> None:
        held = work.restored.get(item.split.partition, 0)
        if held != item.split.start:
            raise Violation(
                f"partition {item.split.partition} is read from {item.split.start}, but state holds {held} rows of it"
            )

    # ---- reading -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        work = self.work
        assert work is not None, "it was deployed"
        if work.halted or work.ended:
            return
        if self._orphaned() and not self._worker.lax:
            self.leave()
            return
        if work.assigned and (work.writer is None or not work.writer.blocked):
            self._read(work)
        self.after(self.world.between(STEP_MS // 2, STEP_MS), self._step)

    def _look(self) -> None:
        if self._orphaned():
            self.leave()
        self.after(self.world.between(LEASE_MS // 2, LEASE_MS), self._look)

    def _orphaned(self) -> bool:
        worker = self._worker
        return not worker.alive or (worker.frozen and self.world.now_ms - worker.frozen_ms >= LEASE_MS)

    def _read(self, work: _Work) -> None:
        if self.poisoned:
            self.fail("user", "row 17 cannot be read")
            return
        rows: list[Range] = []
        for partition, reading in work.read.items():
            more = self.world.between(0, 30)
            more = more if reading.stop is None else min(more, reading.stop - reading.position)
            if more:
                rows.append((partition, reading.position, reading.position + more))
            reading.position += more
        if work.writer is not None:
            work.writer.write(tuple(rows))
        ended = work.final and all(each.position == each.stop for each in work.read.values())
        if ended and not work.ended:
            work.ended = True
            self._say(InputEnded())

    def fail(self, domain: str, text: str) -> None:
        """A subtask fails: the slot says so and leaves."""
        self._say(Failed(Failure(text, domain, retry=domain != "user")))
        self.leave()

    def leave(self) -> None:
        """The process ends."""
        if self.alive:
            self.kill()
            self._worker.slot_ended(self)

    # ---- epochs --------------------------------------------------------------------------------------------------

    def _barrier(self, work: _Work, trigger: TriggerEpoch) -> None:
        work.halted = work.halted or trigger.stop
        rows = tuple((p, each.staged, each.position) for p, each in work.read.items() if each.staged < each.position)
        for each in work.read.values():
            each.staged = each.position
        if work.writer is not None:
            pass  # it has them already
        elif self._worker.commits:
            work.parts.append(_Part(trigger.epoch, rows))
        else:
            self._worker.appended.append(rows)
        path, content = self._chunk(work, trigger.epoch)
        sources = {SOURCE: SourceState(tuple(_split_state(p, each) for p, each in sorted(work.read.items())))}
        document = SubtaskDocument(
            task="count",
            subtask=work.deployment.index,
            states=(self._handle(work, work.chunks),),
            savepoint=(),
            sources=sources,
            committables=self._committables(work) if self._worker.commits else (),
        )
        files = {path: content}
        if trigger.savepoint:
            whole = f"{trigger.savepoint}/{path}"
            files[whole] = _content([(p, 0, each.position) for p, each in work.read.items()])
            document = document.model_copy(update={"savepoint": (self._handle(work, [whole]),)})
        upload = _Upload(trigger.epoch, document, list(files.items()))
        if work.writer is None:
            self._begin_upload(upload)
        else:
            work.writer.flush(trigger.epoch, lambda prepared: self._begin_upload(upload, prepared))

    def _begin_upload(self, upload: _Upload, prepared: tuple[CommittableDocument, ...] = ()) -> None:
        if prepared:
            upload.document = upload.document.model_copy(update={"committables": prepared})
        self._uploads.append(upload)
        if len(self._uploads) == 1:
            self._upload()

    def _chunk(self, work: _Work, epoch: int) -> tuple[str, bytes]:
        """The next chunk: what is not in one yet, or all of it anew."""
        if self.world.chance.random() < 0.2:
            work.chunks.clear()
        whole = not work.chunks
        rows = [(p, 0 if whole else each.chunked, each.position) for p, each in work.read.items()]
        for each in work.read.values():
            each.chunked = each.position
        self._files += 1
        about = work.deployment
        path = f"state/{about.attempt}-{epoch}-count-{about.index}-{self.name}x{self._files}.parquet"
        work.chunks.append(path)
        return path, _content(rows)

    def _handle(self, work: _Work, paths: Sequence[str]) -> StateHandle:
        return StateHandle(
            node="count",
            state="rows",
            kind="keyed",
            keys=(),
            subtask=work.deployment.index,
            first_group=0,
            last_group=0,
            columns={},
            files=tuple(FilePart(path=path, row_groups=(0,), rows=1, bytes=1, checksum="") for path in paths),
        )

    def _committables(self, work: _Work) -> tuple[CommittableDocument, ...]:
        attempt, index = work.deployment.attempt, work.deployment.index
        return tuple(
            CommittableDocument(
                sink=SINK,
                subtask=index,
                epoch=part.epoch,
                payload={
                    "part": f"{attempt}-{part.epoch}-{index}-{self.name}",
                    "rows": part.rows,
                },
            )
            for part in work.parts
            if part.rows
        )

    def _upload(self) -> None:
        """Writes file after file, epoch after epoch; storage that refuses makes it decline."""
        upload = self._uploads[0]
        if not upload.files:
            named = [part.path for handle in upload.document.states for part in handle.files]
            self._uploaded(Acked(upload.epoch, (upload.document,)) if self._stored.issuperset(named) else None)
            return
        path, content = upload.files.pop(0)

        def on_answer(answer: object) -> None:
            if isinstance(answer, Exception) or self.world.happens(self._worker.declines):
                self._uploaded(None)
            else:
                self._stored.add(path)
                self._upload()

        storage = self._worker.storage
        storage.call(self, lambda: storage.objects.put_if_absent(path, content), on_answer)

    def _uploaded(self, said: Acked | None) -> None:
        assert self.work is not None, "it runs"
        upload = self._uploads.pop(0)
        if said is None:
            # what was not stored cannot be referred to: the next chunk holds everything
            self.work.chunks.clear()
        self._say(said or Declined(upload.epoch))
        if self._uploads:
            self._upload()

    def _say(self, said: Said) -> None:
        assert self.work is not None, "only an attempt has something to say"
        self._worker.slot_said(self, self.work.deployment.attempt, said)


def _split_state(partition: int, reading: _Reading) -> SplitState:
    return SplitState(TOPIC, partition, reading.position, finished=reading.position == reading.stop)


def _content(rows: Sequence[Range]) -> bytes:
    return json.dumps(rows).encode()


def read_chunk(held: dict[str, bytes], path: str) -> list[Range]:
    """The ranges of a chunk. A file that is missing is a violation: what names it was complete."""
    if path not in held:
        raise Violation(f"{path} is needed, but not there")
    return [(p, first, behind) for p, first, behind in json.loads(held[path])]


def tiled(partition: int, ranges: Sequence[tuple[int, int]]) -> int:
    """How many rows the chunks of a partition hold; a gap or an overlap is a violation."""
    end = 0
    for first, behind in sorted(ranges):
        if first != end:
            raise Violation(f"chunks of partition {partition} do not fit: {sorted(ranges)}")
        end = behind
    return end
