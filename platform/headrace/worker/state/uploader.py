"""Uploads snapshots to storage in its own thread, and acknowledges an epoch once all snapshots of a slot are stored.

    snapshotted(..) ──> waiting epochs ──> upload thread ──> Acked(epoch), or Declined(epoch) if storage refuses
    order(..), give_up(..) ──┘

`slot.attempt.epochs` decides which snapshot is next and when an epoch is complete; `snapshot_documents` decides which
files hold its states.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, SubtaskDocument
from headrace.checkpoint.paths import state_path
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import ExternalError, HeadraceError
from headrace.rpc.failure import failure_of
from headrace.rpc.figures import SUBTASK_BARRIERS, SubtaskBarrier
from headrace.rpc.messages import Acked, Declined
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.slot.attempt.epochs import EPOCHS_MAX, SlotEpochs, Upload
from headrace.worker.state.snapshot_documents import SnapshotDocuments, UploadPlan


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
        self._documents = SnapshotDocuments(plan)

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """Queues a subtask's snapshot. Declines the oldest epochs if too many wait for storage."""
        with self._changed:
            if self._stopped:
                return
            overdue = self._epochs.snapshotted(snapshot.epoch, snapshot, _now_ms())
            self._changed.notify()
        for number in overdue:
            self._send_declined(number, ExternalError(f"{EPOCHS_MAX} newer epochs wait for storage", retry=True))

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
        # an upload is forgotten before the next one is waited for: it may hold rows that nobody else has
        while self._upload_next():
            pass

    def _upload_next(self) -> bool:
        upload = self._take()
        if upload is None:
            return False
        try:
            document, size = self._upload(upload)
        except (HeadraceError, OSError) as error:
            self._decline(upload.epoch, error)
        else:
            self._settle(upload, document, size)
        return True

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
            self._send_declined(number, error)

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

    def _upload(self, upload: Upload[SubtaskSnapshot]) -> tuple[SubtaskDocument, int]:
        """Writes the states of a snapshot; returns its document and the number of bytes written."""
        files = _Writer(self._store, self._plan.attempt, upload.snapshot)
        if not upload.savepoint:
            return self._documents.document(upload.snapshot, files.write), files.bytes
        whole = _Writer(self._open_savepoint(upload.savepoint), self._plan.attempt, upload.snapshot)
        document = self._documents.document(upload.snapshot, files.write, whole=whole.write)
        return document, files.bytes + whole.bytes

    def _send_declined(self, epoch: int, error: Exception) -> None:
        self._send(Declined(self._plan.job, self._plan.attempt, epoch, failure_of(error)))


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
