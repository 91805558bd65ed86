"""The files sink, at least once: hidden temporary files that get their name, fsynced, when an epoch is flushed. Nothing
that a reader can see is ever incomplete, and no file is written over."""

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
        """Removes what writers of this sink that were killed had begun. Before any writer of an attempt gets a row, all
        of them are open, so nothing of the living is touched; each takes its share, whatever the parallelism was.
        What is staged may be decided: a committer's business."""
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
        """Puts everything on disk and gives it its name; an epoch without rows leaves nothing."""
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
        """Removes what was not flushed."""
        self._files.discard()
