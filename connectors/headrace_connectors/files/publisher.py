"""Publishes a share of staged rows as files, exactly once: `part-<job>-<epoch>-<subtask>-<n>.<ext>`.

    rows ─> hidden files ─> complete, fsynced ─> the share's record lists them ─> final names instead of hidden ones

Before the record exists, nothing is visible and the next publisher starts over. After it, every publisher continues
with the recorded files: one that has lost its hidden name has its final one, also if a reader has taken it away since.
So there is never a second copy, and in the end no part of a share. Files get the first free numbers, because sinks of a
job may share a folder.

The record is a small hidden file in the sink's folder, `.part-<job>-<sink>-<subtask>-<epoch>.published`. It is put
once, whole, and only if absent: that decides between the files of several publishers. The newest epoch's record is
kept, so that a share that is published again is recognised.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkBatch, SinkContext
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import hidden_files, make_folder, refused_by, sync
from headrace_connectors.files.parts.part_files import EpochFiles, WrittenFile
from headrace_connectors.files.parts.part_names import WriterName, open_name, published_name, staged_name
from headrace_connectors.files.parts.publication import give_name


class FilesPublisher:
    """`connect.publisher.Publisher` for files. All rows of a share become visible by `finish`."""

    def __init__(self, config: FilesSinkSettings, context: SinkContext, share: Share) -> None:
        self._context, self._share = context, share
        self._folder = make_folder(config.path)
        self._records = ShareRecords(self._folder, context)
        self._files = EpochFiles(self._folder, context, checked=False)
        self._published = 0
        try:
            record = self._records.newest()
            if record is not None:
                self._published = record.marker.published(share)
                self._give_names(record)
            self._remove(staged=record is not None and record.epoch >= share.epoch)
        except OSError as cause:
            raise refused_by(self._folder, context.node, cause, retry=True) from cause
        self._written = self._published

    @property
    def published(self) -> int:
        """Either none of the share's rows, or all."""
        return self._published

    def write(self, batch: SinkBatch) -> None:
        """Appends rows to hidden files. Raises ExternalError."""
        if not len(batch):
            return
        try:
            self._files.write(batch.rows)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause) from cause
        self._written += len(batch)

    def finish(self) -> None:
        """Syncs the files and gives them their final names. Raises ExternalError if another publisher has removed them,
        which is how it fences this one."""
        self._share.require_whole(self._written)
        if self._published == self._share.rows:
            return
        try:
            written = self._files.complete()
            staged = tuple(self._stage(file, number) for number, file in enumerate(written))
            # hidden names must be durable before a record lists them
            sync(self._folder)
            self._files.handed_over()
            self._give_names(self._records.put(ShareRecord(self._share.epoch, self._share.rows, staged)))
            self._remove(staged=True)
        except OSError as cause:
            raise refused_by(self._folder, self._context.node, cause, retry=True) from cause
        self._published = self._share.rows

    def _stage(self, file: WrittenFile, number: int) -> str:
        sync(file.path)
        name = staged_name(WriterName.of(self._context), self._share.epoch, number, uuid.uuid4().hex)
        file.path.rename(self._folder / name)
        return name

    def _give_names(self, record: ShareRecord) -> None:
        for name in record.staged:
            self._give_name(self._folder / name, record.epoch)
        sync(self._folder)

    def _give_name(self, staged: Path, epoch: int) -> None:
        number = 0
        while True:
            final = self._folder / published_name(self._context, epoch, number)
            try:
                give_name(staged, final)
            except FileExistsError:
                number += 1
                continue
            except FileNotFoundError:
                # it has its final name, or a reader has taken it away since: the record was durable before
                return
            return

    def _remove(self, *, staged: bool) -> None:
        """Removes open files of earlier publishers of the share, and so fences them. Staged files are removed only once
        a record exists, because until then one of those publishers may still put its own."""
        context = self._context
        for path, hidden in hidden_files(self._folder):
            writer = hidden.writer
            own = (writer.job, writer.sink, writer.subtask) == (context.job, context.node, context.subtask)
            if own and (hidden.epoch is None or (staged and hidden.epoch <= self._share.epoch)):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Removes unfinished files. Idempotent."""
        self._files.discard()


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
