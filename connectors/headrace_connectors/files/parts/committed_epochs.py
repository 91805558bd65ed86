"""The memory of committed epochs in a sink's folder: empty hidden files, `.committed-<writer>-<epoch>`.

One is durable before the first file of its writer's epoch gets its final name. So a staged file that is gone was
published if there is a marker, and lost if there is none; a published file may be taken away at any moment. Markers of
epochs before those of a commit are removed by it: nobody asks for them again. Those of a job's last epoch stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from headrace_connectors.files.parts.folder import sync
from headrace_connectors.files.parts.part_names import WriterName

_MARKER = re.compile(r"\.committed-(.+)-([0-9]+)")


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
