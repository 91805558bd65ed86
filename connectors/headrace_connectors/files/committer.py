"""The files sink, exactly once, beside the coordinator: publishes what is decided, and removes what never will be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.connect.sink import Committable, OpenTransaction, SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import hidden_files, refused_by
from headrace_connectors.files.parts.part_names import WriterName, prepared_name
from headrace_connectors.files.parts.publication import StagedFile, Standing, publish


class FilesCommitter:
    """Works on the sink's folder, which it shares with the writers; holds nothing open."""

    def __init__(self, config: FilesSinkSettings, context: SinkContext) -> None:
        self._folder = Path(config.path)
        self._context = context

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Looks whether all files are there, whole, and their names free. There is nothing to add."""
        try:
            for committable in committables:
                for file in _files(committable):
                    if file.standing(self._folder) is Standing.GONE:
                        raise self._missing(self._folder / file.staged)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause
        return committables

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Publishes files, older epochs first. Gives those of which no file is staged or published any more."""
        try:
            if committables:
                # a folder that is not mounted just now has lost nothing
                self._folder.stat()
            return [each for each in sorted(committables, key=lambda each: each.epoch) if not self._publish(each)]
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause, retry=True) from cause

    def _publish(self, committable: Committable) -> bool:
        """Whether it is visible now."""
        files = _files(committable)
        standings = [file.standing(self._folder) for file in files]
        gone = [file for file, standing in zip(files, standings, strict=True) if standing is Standing.GONE]
        if gone and Standing.PUBLISHED in standings:
            raise ExternalError(
                f"{self._folder / gone[0].final} is gone, though others of its epoch are published",
                remedy="while the job recovers, leave published files where they are: put it back",
            )
        if not gone:
            publish(self._folder, files)
        return not gone

    def fence(self, names: Sequence[str]) -> None:
        """Removes what writers of these names have begun or staged: one that still writes fails at its barrier."""
        wanted = set(names)
        self._remove(lambda writer: str(writer) in wanted)

    def sweep(self, attempt: int) -> Sequence[str]:
        """Removes what earlier attempts than `attempt` have begun or staged. Later ones are nothing to a committer that
        was frozen, and replaced, in between."""
        context = self._context
        return self._remove(
            lambda writer: (writer.job, writer.sink) == (context.job, context.node) and writer.attempt < attempt
        )

    def _remove(self, ended: Callable[[WriterName], bool]) -> Sequence[str]:
        """The names whose files were removed, sorted."""
        found: set[str] = set()
        try:
            for path, hidden in hidden_files(self._folder):
                if ended(hidden.writer):
                    path.unlink(missing_ok=True)
                    found.add(str(hidden.writer))
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause, retry=True) from cause
        return sorted(found)

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """One for each writer and epoch that something is staged of."""
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
        """Nothing is held."""


def _files(committable: Committable) -> list[StagedFile]:
    return [StagedFile(**document) for document in committable.payload["files"]]


def _changed_ms(path: Path) -> int | None:
    """When a file was last written, epoch ms; None: it has gone meanwhile."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None
