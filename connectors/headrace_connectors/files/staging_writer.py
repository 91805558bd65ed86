"""The writer of the exactly-once files sink. At a barrier the epoch's complete files stay hidden, fsynced under staged
names, and are returned as a committable; the committer gives them their final names.

Sinks of a job may share a folder, and their files must not get the same final name. The same subtask of all sinks of a
job runs in the same process, and the subtask's number is in the name. So the writers of a process share the numbers of
their files.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import make_folder, refused_by, sync
from headrace_connectors.files.parts.part_files import EpochFiles, WrittenFile
from headrace_connectors.files.parts.part_names import WriterName, prepared_name, published_name, staged_name
from headrace_connectors.files.parts.publication import StagedFile

_EPOCHS_KEPT = 64
"""Greatest distance between writers, in epochs; one epoch is in flight at a time."""
_shared: WeakValueDictionary[tuple[str, str, int, int], PublishedNumbers] = WeakValueDictionary()
_sharing = threading.Lock()


class StagingWriter:
    """Writes the rows of one subtask. Staged files outlive it."""

    def __init__(self, config: FilesSinkSettings, context: SinkContext) -> None:
        self._context = context
        self._name = WriterName.of(context)
        self._folder = make_folder(config.path)
        self._numbers = shared_numbers(self._folder, context)
        self._files = EpochFiles(self._folder, context, checked=True)
        self._lock = threading.Lock()
        self._pending: list[Committable] = []

    def write(self, batch: SinkBatch) -> None:
        """Appends rows to the epoch's file."""
        if not len(batch):
            return
        try:
            self._files.write(batch.rows)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Stages the epoch's files. Returns them, and those of earlier epochs that are not committed."""
        try:
            written = self._files.complete()
            staged = [self._stage(file, epoch, number) for number, file in enumerate(written)]
            if staged:
                sync(self._folder)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause
        self._files.handed_over()
        with self._lock:
            if staged:
                self._pending.append(self._committable(epoch, staged, sum(file.rows for file in written)))
            return tuple(self._pending)

    def _stage(self, file: WrittenFile, epoch: int, number: int) -> StagedFile:
        sync(file.path)
        staged = staged_name(self._name, epoch, number, uuid.uuid4().hex)
        final = self._numbers.name(self._folder, self._context, epoch)
        file.path.rename(self._folder / staged)
        return StagedFile(staged, final, file.bytes, file.checksum)

    def _committable(self, epoch: int, staged: Sequence[StagedFile], rows: int) -> Committable:
        payload = {"prepared": prepared_name(self._name, epoch), "files": [file.document() for file in staged]}
        return Committable(self._context.node, self._context.subtask, epoch, payload, name=str(self._name), rows=rows)

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Forgets visible files. Names are never reused, so there are no successors."""
        with self._lock:
            self._pending = [each for each in self._pending if each.epoch > epoch]

    def close(self) -> None:
        """Removes files that were not flushed; staged ones stay."""
        self._files.discard()


class PublishedNumbers:
    """Counts the files of one subtask, epoch by epoch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}

    def name(self, folder: Path, context: SinkContext, epoch: int) -> str:
        """A unique name that no file has."""
        with self._lock:
            number = self._next.get(epoch, 0)
            while os.path.lexists(folder / (name := published_name(context, epoch, number))):
                number += 1
            self._next[epoch] = number + 1
            while len(self._next) > _EPOCHS_KEPT:
                del self._next[min(self._next)]
            return name


def shared_numbers(folder: Path, context: SinkContext) -> PublishedNumbers:
    """The instance shared by all writers of this folder, job, attempt and subtask; released with the last of them."""
    key = (os.path.realpath(folder), context.job, context.attempt, context.subtask)
    with _sharing:
        numbers = _shared.get(key)
        if numbers is None:
            numbers = _shared[key] = PublishedNumbers()
        return numbers
