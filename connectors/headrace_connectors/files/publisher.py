"""Publishes a share of staged rows as files, exactly once: `part-<job>-<epoch>-<subtask>-<n>.<ext>`.

    rows ─> hidden files ─> complete, fsynced ─> the share's record: these are the share ─> names ─> hidden names go

Until the record stands, nothing is visible and whoever comes next begins anew. From then on everybody goes on with the
recorded files, from wherever it ended: a hidden name goes when all files of the share have names that readers see, and
a file that has one is known by being the same file. So there is never a second copy, nor a part of a share.

The first free numbers are taken: sinks of a job may share a folder.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from headrace.connect.publisher import Share
from headrace.connect.sink import SinkBatch, SinkContext
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import hidden_files, make_folder, refused_by, sync
from headrace_connectors.files.parts.part_files import EpochFiles, WrittenFile
from headrace_connectors.files.parts.part_names import WriterName, published_name, staged_name
from headrace_connectors.files.parts.share_record import ShareRecord, ShareRecords


class FilesPublisher:
    """`connect.publisher.Publisher` for files. All rows of a share become visible by `finish`."""

    def __init__(self, config: FilesSinkSettings, context: SinkContext, share: Share) -> None:
        self._context, self._share = context, share
        self._folder = make_folder(config.path)
        self._records = ShareRecords(self._folder, context)
        self._files = EpochFiles(self._folder, context, checked=False)
        self._published = 0
        try:
            found = self._records.newest()
            if found is not None:
                self._published = found.marker.published(share)
                self._give_names(found)
            self._remove(staged=found is not None and found.epoch >= share.epoch)
        except OSError as cause:
            raise refused_by(self._folder, context.node, cause, retry=True) from cause
        self._written = self._published

    @property
    def published(self) -> int:
        """None of the share's rows, or all."""
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
        """Puts the files on disk and gives them their names. Raises ExternalError where another publisher has removed
        them, which is how it shuts this one out."""
        assert self._written == self._share.rows, "all rows were written"
        if self._published == self._share.rows:
            return
        try:
            written = self._files.complete()
            staged = tuple(self._stage(file, number) for number, file in enumerate(written))
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
        staged = [self._folder / name for name in record.staged]
        # where one is gone, all have their names: none goes before
        if all(path.exists() for path in staged):
            try:
                for path in staged:
                    self._give_name(path, record.epoch)
            except FileNotFoundError:
                if all(path.exists() for path in staged):
                    raise
                # another publisher was quicker
            sync(self._folder)
        for path in staged:
            path.unlink(missing_ok=True)

    def _give_name(self, staged: Path, epoch: int) -> None:
        number = 0
        while True:
            final = self._folder / published_name(self._context, epoch, number)
            try:
                os.link(staged, final)
            except FileExistsError:
                if not final.samefile(staged):
                    number += 1
                    continue
            return

    def _remove(self, *, staged: bool) -> None:
        """Removes what earlier publishers of the share have begun, and so shuts them out. What they have staged goes
        only when a record stands, for until then one of them may still put its own."""
        context = self._context
        for path, hidden in hidden_files(self._folder):
            writer = hidden.writer
            own = (writer.job, writer.sink, writer.subtask) == (context.job, context.node, context.subtask)
            if own and (hidden.epoch is None or (staged and hidden.epoch <= self._share.epoch)):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Removes what is not finished. Idempotent."""
        self._files.discard()
