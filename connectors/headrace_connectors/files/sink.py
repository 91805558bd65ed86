"""The files sink: `FilesWriter` at least once, `StagingWriter` and `FilesCommitter` exactly once.

Rows are written to hidden temporary files, which are fsynced and get their final name when an epoch is flushed or
committed. No visible file is ever incomplete, and no file is overwritten.
"""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from headrace.connect.sink import Committable, OpenTransaction, SinkBatch, SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import hidden_files, make_folder, refused_by, sync
from headrace_connectors.files.parts.part_files import EpochFiles, WrittenFile
from headrace_connectors.files.parts.part_names import WriterName, prepared_name, published_name, staged_name
from headrace_connectors.files.parts.publication import StagedFile, Standing, publish


class FilesWriter:
    """Writes the rows of one subtask and publishes them at each barrier. At least once."""

    def __init__(self, config: FilesSinkSettings, context: SinkContext) -> None:
        self._context = context
        self._folder = make_folder(config.path)
        self._files = EpochFiles(self._folder, context, checked=False)
        self._sweep()

    def _sweep(self) -> None:
        """Removes open files that killed writers of this sink left behind. Before a writer of an attempt receives a
        row, all of them are open, so live files are not affected; each writer removes its share, whatever the
        parallelism was. Staged files are left to a committer, because they may be decided."""
        context = self._context
        for path, hidden in hidden_files(self._folder):
            own = (hidden.writer.job, hidden.writer.sink) == (context.job, context.node)
            if own and hidden.epoch is None and hidden.writer.subtask % context.parallelism == context.subtask:
                path.unlink(missing_ok=True)

    def write(self, batch: SinkBatch) -> None:
        """Appends rows to the epoch's file."""
        if not len(batch):
            return
        try:
            self._files.write(batch.rows)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Syncs the files and gives them their final names; an epoch without rows leaves none."""
        try:
            files = self._files.complete()
            for file in files:
                sync(file.path)
                self._publish(file.path, epoch)
            if files:
                sync(self._folder)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause
        self._files.handed_over()
        return ()

    def _publish(self, path: Path, epoch: int) -> None:
        """Links the file under the first free name: a rename would replace another run's file of that name."""
        number = 0
        while True:
            try:
                os.link(path, self._folder / published_name(self._context, epoch, number))
            except FileExistsError:
                number += 1
                continue
            path.unlink()
            return

    def close(self) -> None:
        """Removes files that were not flushed."""
        self._files.discard()


# ---- exactly once ----------------------------------------------------------------------------------------------------


_EPOCHS_KEPT = 64
"""Greatest distance between writers, in epochs; one epoch is in flight at a time."""
_shared: WeakValueDictionary[tuple[str, str, int, int], PublishedNumbers] = WeakValueDictionary()
_sharing = threading.Lock()


class StagingWriter:
    """Writes the rows of one subtask. At a barrier the epoch's complete files stay hidden, fsynced under staged names,
    and are returned as a committable; the committer gives them their final names. Staged files outlive the writer."""

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
    """Counts the files of one subtask, epoch by epoch.

    Sinks of a job may share a folder, and their files must not get the same final name. The same subtask of all sinks
    of a job runs in the same process, and the subtask's number is in the name. So the writers of a process share the
    numbers of their files.
    """

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


# ---- the committer ---------------------------------------------------------------------------------------------------


_MARKER = re.compile(r"\.committed-(.+)-([0-9]+)")


class FilesCommitter:
    """Publishes decided files, and removes abandoned ones, beside the coordinator. Works on the sink's folder, which it
    shares with the writers; holds no resources."""

    def __init__(self, config: FilesSinkSettings, context: SinkContext) -> None:
        self._folder = Path(config.path)
        self._context = context
        self._committed = CommittedEpochs(self._folder)

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Checks that all files exist, whole, and that their final names are free. Adds nothing."""
        try:
            for committable in committables:
                if self._committed.has(committable.payload["prepared"]):
                    continue
                for file in _files(committable):
                    if file.standing(self._folder) is Standing.GONE:
                        raise self._missing(self._folder / file.staged)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause
        return committables

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Publishes files, older epochs first. Returns committables that lack a staged file and were never published:
        one whose commit had begun was published, also if a reader has taken its files away since.
        """
        if not committables:
            return []
        try:
            # an unmounted folder raises here, so that its files do not count as lost
            self._folder.stat()
            whole: list[Committable] = []
            lost: list[Committable] = []
            for each in sorted(committables, key=lambda each: each.epoch):
                (whole if self._is_whole(each) else lost).append(each)
            self._committed.add(each.payload["prepared"] for each in whole)
            for each in whole:
                publish(self._folder, _files(each))
            self._committed.forget(
                self._context.job, self._context.node, before=min(each.epoch for each in committables)
            )
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause, retry=True) from cause
        return lost

    def _is_whole(self, committable: Committable) -> bool:
        """Whether a committable can be published or is. Raises ExternalError if part of it was published by a version
        without markers, and part is gone."""
        files = _files(committable)
        if self._committed.has(committable.payload["prepared"]):
            return True
        standings = [file.standing(self._folder) for file in files]
        gone = [file for file, standing in zip(files, standings, strict=True) if standing is Standing.GONE]
        if gone and Standing.PUBLISHED in standings:
            raise ExternalError(
                f"{self._folder / gone[0].final} is gone, though others of its epoch are published",
                remedy="while the job recovers, leave published files where they are: put it back",
            )
        # a lost file makes its epoch's other files useless: all become visible, or none
        return not gone

    def fence(self, names: Sequence[str]) -> None:
        """Removes open and staged files of these writers: a live one fails at its barrier."""
        wanted = set(names)
        self._remove(lambda writer: str(writer) in wanted)

    def sweep(self, attempt: int) -> Sequence[str]:
        """Removes open and staged files of attempts before `attempt`. Never of later ones, because this committer may
        have been superseded while it was suspended."""
        context = self._context
        return self._remove(
            lambda writer: (writer.job, writer.sink) == (context.job, context.node) and writer.attempt < attempt
        )

    def _remove(self, ended: Callable[[WriterName], bool]) -> Sequence[str]:
        """Removes the files of these writers; returns their names, sorted."""
        writers: set[str] = set()
        try:
            for path, hidden in hidden_files(self._folder):
                if ended(hidden.writer):
                    path.unlink(missing_ok=True)
                    writers.add(str(hidden.writer))
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause, retry=True) from cause
        return sorted(writers)

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """One per writer and epoch with staged files."""
        context = self._context
        began_ms: dict[tuple[WriterName, int], int] = {}
        for path, hidden in hidden_files(self._folder):
            own = not context.job or (hidden.writer.job, hidden.writer.sink) == (context.job, context.node)
            if own and hidden.epoch is not None and (changed_ms := _changed_ms(path)) is not None:
                key = (hidden.writer, hidden.epoch)
                began_ms[key] = min(changed_ms, began_ms.get(key, changed_ms))
        return [
            OpenTransaction(
                name=str(writer),
                sink=writer.sink,
                job=writer.job,
                attempt=writer.attempt,
                subtask=writer.subtask,
                state="staged",
                started_at_ms=changed_ms,
                places=(str(self._folder),),
                identity={"prepared": prepared_name(writer, epoch)},
            )
            for (writer, epoch), changed_ms in sorted(began_ms.items())
        ]

    def _missing(self, path: Path) -> ExternalError:
        return ExternalError(
            f"sink {self._context.node!r}: {path} is not there, though its writer has staged it",
            remedy="`path:` has to be one folder that the coordinator and all workers share; write an absolute path",
        )

    def close(self) -> None:
        """Does nothing: there are no resources."""


def _files(committable: Committable) -> list[StagedFile]:
    return [StagedFile(**document) for document in committable.payload["files"]]


def _changed_ms(path: Path) -> int | None:
    """Time of the last write to a file, epoch ms; None: deleted meanwhile."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None


class CommittedEpochs:
    """The markers of committed epochs in one folder: empty hidden files, `.committed-<writer>-<epoch>`.

    One is durable before the first file of its writer's epoch gets its final name. So a staged file that is gone was
    published if there is such a marker, and lost if there is none; readers may move or delete a published file at any
    moment. A commit deletes the markers of earlier epochs, which are not read again. Those of a job's last epoch stay.
    Raises OSError if the file system fails.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: set[str] | None = None
        """Names of all markers in the folder; None: not listed yet."""

    def has(self, prepared: str) -> bool:
        """Whether the commit of this writer's epoch has begun. prepared: as `part_names.prepared_name`."""
        return self._path(prepared).exists()

    def add(self, prepared: Iterable[str]) -> None:
        """Records that the commit of these begins; durable on return."""
        fresh = [path for each in prepared if not (path := self._path(each)).exists()]
        for path in fresh:
            path.touch()
            if self._kept is not None:
                self._kept.add(path.name)
        if fresh:
            sync(self._folder)

    def forget(self, job: str, sink: str, *, before: int) -> None:
        """Removes the markers of a sink for epochs before this one."""
        if self._kept is None:
            # listed once: a folder may hold very many files
            names = os.listdir(self._folder)  # noqa: PTH208 - names are enough
            self._kept = {name for name in names if _MARKER.fullmatch(name)}
        for name in sorted(self._kept):
            match = _MARKER.fullmatch(name)
            writer = None if match is None else WriterName.parsed(match[1])
            if match is None or writer is None or (writer.job, writer.sink) != (job, sink) or int(match[2]) >= before:
                continue
            (self._folder / name).unlink(missing_ok=True)
            self._kept.discard(name)

    def _path(self, prepared: str) -> Path:
        return self._folder / f".committed-{prepared}"
