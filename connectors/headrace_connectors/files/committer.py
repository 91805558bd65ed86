"""The committer of the exactly-once files sink, beside the coordinator: publishes decided files, and removes abandoned
ones.

The sink's folder remembers committed epochs by empty hidden files, `.committed-<writer>-<epoch>`. One is durable before
the first file of its writer's epoch gets its final name. So a staged file that is gone was published if there is such a
marker, and lost if there is none; readers may move or delete a published file at any moment. A commit deletes the
markers of earlier epochs, which are not read again. Those of a job's last epoch stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headrace.connect.sink import Committable, OpenTransaction, SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import hidden_files, refused_by, sync
from headrace_connectors.files.parts.part_names import WriterName, prepared_name
from headrace_connectors.files.parts.publication import StagedFile, Standing, publish

_MARKER = re.compile(r"\.committed-(.+)-([0-9]+)")


class FilesCommitter:
    """Works on the sink's folder, which it shares with the writers; holds no resources."""

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
    """The markers in one folder. Raises OSError if the file system fails."""

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
