"""Which functions of users run in a process, in a file that outlives it.

A function that calls `os._exit`, or crashes in native code, ends its process without a word. The owner of the process
reads afterwards which functions were running. The file is mapped into memory: a call costs two short copies, no
system call.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.core.files.home_files import PRIVATE_FILE

CALLS_MAX = 64
"""So many calls are recorded at a time, one a subtask's thread; others run unrecorded."""
TEXT_BYTES_MAX = 256
FILE = "running-calls"


class RunningCalls:
    """The record of this process, in a folder that its owner knows. Used by any thread."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            os.truncate(file, CALLS_MAX * TEXT_BYTES_MAX)
            self._memory = mmap.mmap(file, 0)
        finally:
            os.close(file)
        self._free = list(range(CALLS_MAX))

    @contextmanager
    def recorded(self, text: str) -> Iterator[None]:
        """Records `text` while the block runs. If the process dies in it, the record stays."""
        try:
            begin = self._free.pop() * TEXT_BYTES_MAX  # atomic, as is `append`
        except IndexError:
            yield
            return
        data = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]
        self._memory[begin : begin + len(data)] = data
        try:
            yield
        finally:
            self._memory[begin : begin + len(data)] = bytes(len(data))
            self._free.append(begin // TEXT_BYTES_MAX)


def calls_of(folder: Path) -> list[str]:
    """The calls that a process which has ended was in, by its folder; none if it kept no record."""
    try:
        data = (folder / FILE).read_bytes()
    except OSError:
        return []
    texts = (data[begin : begin + TEXT_BYTES_MAX].rstrip(b"\0") for begin in range(0, len(data), TEXT_BYTES_MAX))
    return sorted({text.decode("utf-8", "replace") for text in texts if text})
