"""Uploads snapshots to storage in its own thread, and acknowledges an epoch once all snapshots of a slot are stored.

    snapshotted(..) ──> waiting epochs ──> upload thread ──> Acked(epoch), or Declined(epoch) if storage refuses
    order(..), give_up(..) ──┘

`slot.attempt.epochs` decides which snapshot is next and when an epoch is complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, CommittableDocument, FilePart, StateHandle, SubtaskDocument
from headrace.checkpoint.paths import state_path
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.group_ranges import group_span
from headrace.rpc.failure import failure_of
from headrace.rpc.figures import SUBTASK_BARRIERS, SubtaskBarrier
from headrace.rpc.messages import Acked, Declined
from headrace.state.snapshot import StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.slot.attempt.epochs import EPOCHS_MAX, SlotEpochs, Upload
from headrace.worker.state.state_files import StateFiles, Write, write_whole


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """The subtasks of one slot and attempt. parallelism: task of this slot -> number of its subtasks in the job."""

    job: str
    attempt: int
    parallelism: Mapping[str, int]
    max_parallelism: int


class Uploader:
    """One upload thread. Any thread may call the public methods except `run`; they never wait for storage."""

    def __init__(
        self,
        plan: UploadPlan,
        store: ObjectStore,
        open_savepoint: Callable[[str], ObjectStore],
        send: Callable[[Acked | Declined], None],
    ) -> None:
        self._plan = plan
        self._store = store
        self._open_savepoint = open_savepoint
        self._send = send
        self._changed = threading.Condition()
        self._epochs: SlotEpochs[SubtaskSnapshot] = SlotEpochs(len(plan.parallelism))
        self._stopped = False
        self._files: dict[tuple[str, str, str], StateFiles] = {}

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """Queues a subtask's snapshot. Declines the oldest epochs if too many wait for storage."""
        with self._changed:
            if self._stopped:
                return
            overdue = self._epochs.snapshotted(snapshot.epoch, snapshot, _now_ms())
            self._changed.notify()
        for number in overdue:
            reason = ExternalError(f"{EPOCHS_MAX} newer epochs wait for storage", retry=True)
            self._send(Declined(self._plan.job, self._plan.attempt, number, failure_of(reason)))

    def order(self, epoch: int, savepoint: str) -> None:
        """Allows the upload of an epoch. savepoint: URL of a folder for a second, whole copy of the state, or empty."""
        with self._changed:
            self._epochs.order(epoch, savepoint, _now_ms())
            self._changed.notify()

    def give_up(self, epoch: int) -> None:
        """Drops the waiting snapshots of an aborted epoch."""
        with self._changed:
            self._epochs.give_up(epoch)

    def stop(self) -> None:
        """Makes `run` return after the file that it writes."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Uploads until `stop`. An error of storage declines the epoch; any other exception is raised."""
        while (upload := self._take()) is not None:
            try:
                document, size = self._upload(upload.snapshot, upload.savepoint)
            except (HeadraceError, OSError) as error:
                self._decline(upload.epoch, error)
            else:
                self._settle(upload, document, size)

    def _take(self) -> Upload[SubtaskSnapshot] | None:
        with self._changed:
            while not self._stopped:
                if (upload := self._epochs.take()) is not None:
                    return upload
                self._changed.wait()
        return None

    def _decline(self, number: int, error: Exception) -> None:
        with self._changed:
            # it may have been aborted, or declined as overdue, while its file was written
            was_open = self._epochs.refused(number)
        if was_open:
            self._send(Declined(self._plan.job, self._plan.attempt, number, failure_of(error)))

    def _settle(self, upload: Upload[SubtaskSnapshot], document: SubtaskDocument, size: int) -> None:
        now_ms = _now_ms()
        barrier = SubtaskBarrier(
            task=document.task,
            took_ms=now_ms - upload.begun_ms,
            aligned_ms=upload.snapshot.aligned_ms,
            bytes=size,
        )
        with self._changed:
            epoch = self._epochs.uploaded(upload.epoch, document, size, barrier)
        if epoch is not None:
            text = SUBTASK_DOCUMENTS.dump_json(epoch.documents)
            figures = SUBTASK_BARRIERS.dump_json(tuple(epoch.barriers))
            took_ms = now_ms - epoch.begun_ms
            self._send(Acked(self._plan.job, self._plan.attempt, upload.epoch, text, took_ms, epoch.bytes, figures))

    # ---- one snapshot ------------------------------------------------------------------------------------------------

    def _upload(self, snapshot: SubtaskSnapshot, savepoint: str) -> tuple[SubtaskDocument, int]:
        """Writes the states of a snapshot; returns its document and the number of bytes written."""
        writer = _Writer(self._store, self._plan.attempt, snapshot)
        states = tuple(self._incremental(snapshot, node, state, writer.write) for node, state in snapshot.states)
        whole: tuple[StateHandle, ...] = ()
        size = writer.bytes
        if savepoint:
            into = _Writer(self._open_savepoint(savepoint), self._plan.attempt, snapshot)
            whole = tuple(self._whole(snapshot, node, state, into.write) for node, state in snapshot.states)
            size += into.bytes
        document = SubtaskDocument(
            task=snapshot.task,
            subtask=snapshot.subtask,
            states=states,
            savepoint=whole,
            sources=dict([snapshot.source]) if snapshot.source is not None else {},
            counters=dict(snapshot.counters),
            committables=tuple(CommittableDocument.of(each) for each in snapshot.committables),
        )
        return document, size

    def _incremental(self, snapshot: SubtaskSnapshot, node: str, state: StateSnapshot, write: Write) -> StateHandle:
        files = self._files.setdefault((snapshot.task, node, state.name), StateFiles(self._plan.max_parallelism))
        files.bring(state, write)
        return self._handle(snapshot, node, state, files.parts(), files.columns())

    def _whole(self, snapshot: SubtaskSnapshot, node: str, state: StateSnapshot, write: Write) -> StateHandle:
        parts, columns = write_whole(state, self._plan.max_parallelism, write=write)
        return self._handle(snapshot, node, state, parts, columns)

    def _handle(
        self,
        snapshot: SubtaskSnapshot,
        node: str,
        state: StateSnapshot,
        files: tuple[FilePart, ...],
        columns: dict[str, str],
    ) -> StateHandle:
        parallelism = self._plan.parallelism[snapshot.task]
        first, last = group_span(snapshot.subtask, parallelism, self._plan.max_parallelism)
        return StateHandle(
            node=node,
            state=state.name,
            kind=state.kind.value,
            keys=state.keys,
            subtask=snapshot.subtask,
            first_group=first,
            last_group=last,
            columns=columns,
            files=files,
        )


class _Writer:
    """Writes state files of one subtask and epoch under new names. `bytes`: written so far."""

    def __init__(self, store: ObjectStore, attempt: int, snapshot: SubtaskSnapshot) -> None:
        self._store = store
        self._attempt = attempt
        self._snapshot = snapshot
        self.bytes = 0

    def write(self, data: bytes) -> str:
        own = self._snapshot
        path = state_path(self._attempt, own.epoch, own.task, own.subtask, unique_part())
        self._store.write(path, data)
        self.bytes += len(data)
        return path


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
