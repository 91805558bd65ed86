"""The uploader of a simulated slot: real epochs (`slot_epochs`), simulated files.

It writes file after file and snapshot after snapshot, as the one upload thread of a slot does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, FilePart, StateHandle, SubtaskDocument
from headrace.rpc.messages import Acked, Declined, Failure
from headrace.worker.slot.attempt.epochs import SlotEpochs, Upload
from sim.names import JOB
from sim.processes.chunks import Chunks, chunk

if TYPE_CHECKING:
    from sim.processes.slot import Slot
    from sim.processes.worker import Worker

REFUSED = Failure("storage refused", "external", retry=True)
MERGED = 0.2
"""How likely all chunks are written anew as one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a subtask gives for an epoch. counted: partition -> rows in its state; None: it has no state."""

    document: SubtaskDocument
    counted: dict[int, int] | None = None


@dataclass(slots=True)
class _Files:
    """What is still to be written for one snapshot; `chunks`: what is stored once it is."""

    upload: Upload[Snapshot]
    document: SubtaskDocument
    waiting: deque[tuple[str, bytes]]
    chunks: Chunks


class Uploads:
    """One slot's uploader. say: takes Acked and Declined; subtasks: how many give snapshots."""

    def __init__(self, slot: Slot, worker: Worker, subtasks: int, say: Callable[[Acked | Declined], None]) -> None:
        self._slot = slot
        self._worker = worker
        self._say = say
        self._epochs: SlotEpochs[Snapshot] = SlotEpochs(subtasks)
        self._files: _Files | None = None
        self._named = 0
        self.chunks = Chunks()
        """What is in storage: in the beginning what the attempt has restored."""
        self._stopped: Callable[[], None] | None = None
        self.stored: dict[int, set[str]] = {}
        """Epoch -> tasks whose snapshot is in storage."""

    @property
    def busy(self) -> bool:
        """Whether its thread runs and is not idle."""
        return self._files is not None

    def snapshotted(self, epoch: int, snapshot: Snapshot) -> None:
        """Takes a subtask's snapshot."""
        if self._stopped is None:
            for number in self._epochs.snapshotted(epoch, snapshot, self._slot.world.now_ms):
                self._say(Declined(JOB, self._slot.attempt, number, REFUSED))
            self._next()

    def order(self, epoch: int, savepoint: str) -> None:
        """The epoch was begun."""
        self._epochs.order(epoch, savepoint, self._slot.world.now_ms)
        self._next()

    def give_up(self, epoch: int) -> None:
        """The epoch was aborted."""
        self._epochs.give_up(epoch)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Calls `stopped` once no file is being written."""
        self._stopped = stopped
        self._next()

    # ---- one snapshot --------------------------------------------------------------------------------------------

    def _next(self) -> None:
        if self._files is not None:
            return
        if self._stopped is not None:
            self._stopped()
        elif (upload := self._epochs.take()) is not None:
            self._files = self._files_of(upload)
            self._write()

    def _files_of(self, upload: Upload[Snapshot]) -> _Files:
        """The next chunk: what is not in one yet, or all of it anew; and all of it for a savepoint."""
        document, counted = upload.snapshot.document, upload.snapshot.counted
        if counted is None:
            return _Files(upload, document, deque(), self.chunks)
        before = Chunks() if self._slot.world.chance.random() < MERGED else self.chunks
        self._named += 1
        about = f"{self._slot.attempt}-{upload.epoch}-{document.task}-{document.subtask}"
        path = f"state/{about}-{self._slot.name}x{self._named}.parquet"
        files, chunks = deque([(path, chunk(before.missing(counted)))]), before.with_file(path, counted)
        update: dict[str, object] = {"states": (_handle(document, chunks),)}
        if upload.savepoint:
            folder = f"{upload.savepoint}/{path}"
            files.append((folder, chunk(Chunks().missing(counted))))
            update["savepoint"] = (_handle(document, Chunks().with_file(folder, counted)),)
        return _Files(upload, document.model_copy(update=update), files, chunks)

    def _write(self) -> None:
        files = self._files
        assert files is not None, "a snapshot is being uploaded"
        if not files.waiting:
            self._written(files)
            return
        path, content = files.waiting.popleft()

        def on_answer(answer: object) -> None:
            if isinstance(answer, Exception) or self._slot.world.happens(self._worker.declines):
                self._refused(files)
            else:
                self._write()

        storage = self._worker.storage
        storage.call(self._slot, lambda: storage.objects.put_if_absent(path, content), on_answer)

    def _written(self, files: _Files) -> None:
        self._files, self.chunks = None, files.chunks
        number, document = files.upload.epoch, files.document
        self.stored.setdefault(number, set()).add(document.task)
        epoch = self._epochs.uploaded(number, document, 1)
        if epoch is not None:
            took_ms = self._slot.world.now_ms - epoch.begun_ms
            text = SUBTASK_DOCUMENTS.dump_json(epoch.documents)
            self._say(Acked(JOB, self._slot.attempt, number, text, took_ms, epoch.bytes, b""))
        self._next()

    def _refused(self, files: _Files) -> None:
        # nothing names a file that may not be stored: the next chunk holds what this one would have held
        self._files = None
        if self._epochs.refused(files.upload.epoch):
            self._say(Declined(JOB, self._slot.attempt, files.upload.epoch, REFUSED))
        self._next()


def _handle(document: SubtaskDocument, chunks: Chunks) -> StateHandle:
    return StateHandle(
        node=document.task,
        state="rows",
        kind="keyed",
        keys=(),
        subtask=document.subtask,
        first_group=0,
        last_group=0,
        columns={},
        files=tuple(
            FilePart(path=path, row_groups=row_groups, rows=1, bytes=1, checksum="")
            for path, row_groups in chunks.files().items()
        ),
    )
