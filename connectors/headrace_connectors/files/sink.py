"""The at-least-once files sink: hidden temporary files that are fsynced and get their final name when an epoch is
flushed. No visible file is ever incomplete, and no file is overwritten."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.files.config import FilesSinkSettings
from headrace_connectors.files.parts.folder import hidden_files, make_folder, refused_by, sync
from headrace_connectors.files.parts.part_files import EpochFiles
from headrace_connectors.files.parts.part_names import published_name


class FilesWriter:
    """Writes the rows of one subtask and publishes them at each barrier."""

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
