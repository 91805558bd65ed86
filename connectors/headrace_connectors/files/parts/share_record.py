"""The record of a published share: a small hidden file in the sink's folder that lists the share's staged files.

    .part-<job>-<sink>-<subtask>-<epoch>.published

It is put once, whole, and only if absent: that decides between the files of several publishers. The newest epoch's
record is kept, so that a share that is published again is recognised.
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
    """The decision on one share. `staged`: names of its files, in row order."""

    epoch: int
    rows: int
    staged: tuple[str, ...]

    @property
    def marker(self) -> ShareMarker:
        """The marker of a fully published share; true once the staged files have their final names."""
        return ShareMarker(self.epoch, self.rows, self.rows)


class ShareRecords:
    """The records of one subtask. Raises OSError if the file system fails."""

    def __init__(self, folder: Path, context: SinkContext) -> None:
        self._folder, self._writer = folder, WriterName.of(context)
        self._stem = f".part-{context.job}-{context.node}-{context.subtask}"
        self._pattern = re.compile(rf"{re.escape(self._stem)}-([0-9]+)\.published")

    def newest(self) -> ShareRecord | None:
        """The record of the newest epoch."""
        epochs = self._epochs()
        return self._read(max(epochs)) if epochs else None

    def put(self, record: ShareRecord) -> ShareRecord:
        """Puts the record and returns the valid one: this one, or an earlier put of the same or a newer epoch.

        A record of an old epoch is deleted again: other publishers have deleted that epoch's record before.
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
        # listed after the link: a newer epoch's publisher then sees this record, or this one sees its
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
        document = json.loads(self._path(epoch).read_text())
        return ShareRecord(document["epoch"], document["rows"], tuple(document["staged"]))

    def _path(self, epoch: int) -> Path:
        return self._folder / f"{self._stem}-{epoch}.published"
