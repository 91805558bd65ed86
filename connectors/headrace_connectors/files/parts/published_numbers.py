"""Numbers of published files, shared between writers of one process: sinks of a job may share a folder, and their files
must not get the same final name.

The same subtask of all sinks of a job runs in the same process, and the subtask's number is in the name.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from headrace.connect.sink import SinkContext
from headrace_connectors.files.parts.part_names import published_name

_EPOCHS_KEPT = 64
"""Greatest distance between writers, in epochs; one epoch is in flight at a time."""


class PublishedNumbers:
    """Counts the files of one subtask, epoch by epoch."""

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


_shared: WeakValueDictionary[tuple[str, str, int, int], PublishedNumbers] = WeakValueDictionary()
_sharing = threading.Lock()


def shared_numbers(folder: Path, context: SinkContext) -> PublishedNumbers:
    """The instance shared by all writers of this folder, job, attempt and subtask; released with the last of them."""
    key = (os.path.realpath(folder), context.job, context.attempt, context.subtask)
    with _sharing:
        numbers = _shared.get(key)
        if numbers is None:
            numbers = _shared[key] = PublishedNumbers()
        return numbers
