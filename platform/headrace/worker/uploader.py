"""Brings snapshots into storage, in a thread of its own, and acknowledges an epoch once all of a slot's are there.

    snapshotted(..) ──> epochs that wait ──> upload thread ──> Acked(epoch), or Declined(epoch) where storage refuses
    order(..), give_up(..) ──┘

A barrier may overtake the word of its epoch (it comes from another slot), so a snapshot waits until its epoch is
ordered: only then it is known whether the state goes into a savepoint as well.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, CommittableDocument, FilePart, StateHandle, SubtaskDocument
from headrace.checkpoint.paths import state_path, unique_part
from headrace.checkpoint.store import ObjectStore
from headrace.core.errors import ExternalError, HeadraceError
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Acked, Declined
from headrace.state.redistribute import group_span
from headrace.state.snapshot import StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state_files import StateFiles, Write, write_whole

EPOCHS_MAX = 8
"""Epochs that may wait; the oldest is declined when there are more."""
CLOSED_MAX = 64
"""Epochs remembered as acknowledged or given up, so that late snapshots of them are dropped."""


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """What an uploader serves: one slot's subtasks of one attempt. parallelism: task -> subtasks it has."""

    job: str
    attempt: int
    parallelism: Mapping[str, int]
    max_parallelism: int


@dataclass(slots=True)
class _Epoch:
    """An epoch under way. savepoint: None until it is ordered, then a URL or empty."""

    begun_s: float
    savepoint: str | None = None
    waiting: deque[SubtaskSnapshot] = field(default_factory=deque)
    done: list[SubtaskDocument] = field(default_factory=list)
    bytes: int = 0


class Uploader:
    """One upload thread. Everything public but `run` may be called by any thread and returns at once."""

    def __init__(
        self,
        plan: UploadPlan,
        store: ObjectStore,
        open_savepoint: Callable[[str], ObjectStore],
        say: Callable[[Acked | Declined], None],
    ) -> None:
        self._plan = plan
        self._store = store
        self._open_savepoint = open_savepoint
        self._say = say
        self._changed = threading.Condition()
        self._epochs: dict[int, _Epoch] = {}
        self._closed: deque[int] = deque(maxlen=CLOSED_MAX)
        self._stopped = False
        self._files: dict[tuple[str, str, str], StateFiles] = {}

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """Takes what a subtask has for an epoch."""
        with self._changed:
            if (epoch := self._open(snapshot.epoch)) is not None:
                epoch.waiting.append(snapshot)
                self._changed.notify()
            overdue = self._overdue()
        for number in overdue:
            reason = ExternalError(f"{EPOCHS_MAX} newer epochs wait for storage", retry=True)
            self._say(Declined(self._plan.job, self._plan.attempt, number, failure_of(reason)))

    def order(self, epoch: int, savepoint: str) -> None:
        """The epoch was begun. savepoint: URL of a folder that gets the whole state too, or empty."""
        with self._changed:
            if (known := self._open(epoch)) is not None:
                known.savepoint = savepoint
                self._changed.notify()

    def give_up(self, epoch: int) -> None:
        """The epoch was aborted: what still waits for it is dropped."""
        with self._changed:
            self._close(epoch)

    def stop(self) -> None:
        """Makes `run` return after the file that it writes."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Uploads until `stop`. Raises what is no error of storage."""
        while (taken := self._take()) is not None:
            number, savepoint, snapshot = taken
            try:
                document, size = self._upload(snapshot, savepoint)
            except (HeadraceError, OSError) as error:
                self._decline(number, error)
            else:
                self._settle(number, document, size)

    # ---- epochs ------------------------------------------------------------------------------------------------------

    def _open(self, epoch: int) -> _Epoch | None:
        if epoch in self._closed or self._stopped:
            return None
        return self._epochs.setdefault(epoch, _Epoch(time.monotonic()))

    def _close(self, epoch: int) -> _Epoch | None:
        self._closed.append(epoch)
        return self._epochs.pop(epoch, None)

    def _overdue(self) -> list[int]:
        numbers = sorted(self._epochs)[:-EPOCHS_MAX]
        for number in numbers:
            self._close(number)
        return numbers

    def _take(self) -> tuple[int, str, SubtaskSnapshot] | None:
        """The next snapshot, lower epochs first: chunks that are gone are forgotten in order."""
        with self._changed:
            while not self._stopped:
                for number, epoch in sorted(self._epochs.items()):
                    if epoch.savepoint is not None and epoch.waiting:
                        return number, epoch.savepoint, epoch.waiting.popleft()
                self._changed.wait()
        return None

    def _decline(self, number: int, error: Exception) -> None:
        with self._changed:
            open_still = self._close(number) is not None
        if open_still:
            self._say(Declined(self._plan.job, self._plan.attempt, number, failure_of(error)))

    def _settle(self, number: int, document: SubtaskDocument, size: int) -> None:
        plan = self._plan
        with self._changed:
            epoch = self._epochs.get(number)
            if epoch is None:
                return
            epoch.done.append(document)
            epoch.bytes += size
            if len(epoch.done) < len(plan.parallelism):
                return
            self._close(number)
        documents = tuple(sorted(epoch.done, key=lambda done: done.task))
        took_ms = int((time.monotonic() - epoch.begun_s) * 1000)
        text = SUBTASK_DOCUMENTS.dump_json(documents)
        self._say(Acked(plan.job, plan.attempt, number, text, took_ms, epoch.bytes))

    # ---- one snapshot ------------------------------------------------------------------------------------------------

    def _upload(self, snapshot: SubtaskSnapshot, savepoint: str) -> tuple[SubtaskDocument, int]:
        """Writes a snapshot's states: its document and the bytes written."""
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
        files = self._files.setdefault((snapshot.task, node, state.name), StateFiles())
        files.bring(state, write)
        return self._handle(snapshot, node, state, files.parts(), files.columns())

    def _whole(self, snapshot: SubtaskSnapshot, node: str, state: StateSnapshot, write: Write) -> StateHandle:
        parts, columns = write_whole(state.chunks, write)
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
    """Writes state files of one subtask and epoch under new names; `bytes`: how many so far."""

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
