"""The record of a published share: a small hidden file in the sink's folder that says which staged files are the share.

    .part-<job>-<sink>-<subtask>-<epoch>.published

It is put once, whole, and only where there is none: that decides which of several publishers' files get names. The
newest epoch's stays, so that a share which is published already is known when it comes again.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkContext
from headrace_connectors.files.parts.folder import sync
from headrace_connectors.files.parts.part_names import WriterName, open_name


@dataclass(frozen=True, slots=True)
class ShareRecord:
    """The decision on one share. `staged`: names of its files, in the order of their rows."""

    epoch: int
    rows: int
    staged: tuple[str, ...]

    @property
    def marker(self) -> ShareMarker:
        """All of the share is published, as soon as what is staged has its names."""
        return ShareMarker(self.epoch, self.rows, self.rows)


class ShareRecords:
    """Those of one subtask. Raises OSError where the file system refuses."""

    def __init__(self, folder: Path, context: SinkContext) -> None:
        self._folder, self._writer = folder, WriterName.of(context)
        self._stem = f".part-{context.job}-{context.node}-{context.subtask}"
        self._pattern = re.compile(rf"{re.escape(self._stem)}-([0-9]+)\.published")

    def newest(self) -> ShareRecord | None:
        """The record of the newest epoch."""
        epochs = self._epochs()
        return self._read(max(epochs)) if epochs else None

    def put(self, record: ShareRecord) -> ShareRecord:
        """The record that stands then: this one, or one of the same or a newer epoch that somebody put before.

        A record that is put for an epoch long past is taken back: others had forgotten that one.
        """
        path = self._path(record.epoch)
        temporary = self._folder / open_name(self._writer, uuid.uuid4().hex)
        temporary.write_text(json.dumps(asdict(record)))
        sync(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return self._read(record.epoch)
        finally:
            temporary.unlink(missing_ok=True)
        newest = max(self._epochs())
        if newest > record.epoch:
            path.unlink(missing_ok=True)
            return self._read(newest)
        sync(self._folder)
        self._forget(record.epoch)
        return record

    def _forget(self, before: int) -> None:
        for epoch in self._epochs():
            if epoch < before:
                self._path(epoch).unlink(missing_ok=True)

    def _epochs(self) -> list[int]:
        names = os.listdir(self._folder)  # noqa: PTH208 - a folder may hold very many files: names are enough
        return [int(found[1]) for name in names if (found := self._pattern.fullmatch(name)) is not None]

    def _read(self, epoch: int) -> ShareRecord:
        told = json.loads(self._path(epoch).read_text())
        return ShareRecord(told["epoch"], told["rows"], tuple(told["staged"]))

    def _path(self, epoch: int) -> Path:
        return self._folder / f"{self._stem}-{epoch}.published"
