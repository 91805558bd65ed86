"""The blobs that a task has made and Spark has not received: in memory up to a bound, beyond it on local disk.

A watermark fires all windows of a task in one call, and Spark receives their results after it.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from headrace.core.errors import ExternalError
from headrace.spark.levels.envelope import Envelope
from headrace.state.place import StatePlace

READY_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of the blobs in memory."""
_LENGTH_BYTES = 8


class ReadyBlobs:
    """A queue of blobs. Used by one thread.

    folder   of its file, which has no name and is freed with the queue
    place    of the task's state: with each blob the pages are released that were read to make it
    """

    def __init__(self, folder: Path, place: StatePlace) -> None:
        self._folder = folder
        self._place = place
        self._first: deque[Envelope] = deque()
        self._bytes = 0
        self._file: BinaryIO | None = None

    def append(self, blob: Envelope) -> None:
        """Adds a blob. Raises ExternalError if the local disk refuses it."""
        self._place.release_pages()
        if self._file is None and self._bytes < READY_BYTES_MAX:
            self._first.append(blob)
            self._bytes += len(blob.payload)
            return
        data = blob.pack()
        try:
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  # closed by `take` and `close`
            self._file.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
            self._file.write(data)
        except OSError as error:
            raise _unwritten(error, self._folder) from error

    def take(self) -> Iterator[Envelope]:
        """Returns and removes all blobs, in order. No blob is added meanwhile."""
        while self._first:
            yield self._first.popleft()
        self._bytes = 0
        if self._file is None:
            return
        with self._file as file:
            self._file = None
            file.seek(0)
            while head := file.read(_LENGTH_BYTES):
                yield Envelope.unpack(file.read(int.from_bytes(head, "little")))

    def close(self) -> None:
        """Frees the blobs that nobody took."""
        self._first.clear()
        if self._file is not None:
            self._file.close()


def _unwritten(error: OSError, folder: Path) -> ExternalError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return ExternalError(
        f"results cannot be written to {folder}: {'the disk is full' if full else error.strerror or error}",
        remedy="free space there, set spark.local.dir to a larger disk, or use a higher parallelism",
    )
