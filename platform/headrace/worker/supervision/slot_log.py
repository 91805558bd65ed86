"""What slots print: a file for each slot process, bounded in size and number."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder, private_opener

LOG_BYTES_MAX = 32 << 20
"""Of the file that is written; as much again is kept beside it as `<slot>.log.1`."""
LOGS_MAX = 50
"""Logs of ended slots that are kept, the newest."""


class SlotLog:
    """One slot's log, open for its process to append to until `close`."""

    def __init__(self, folder: Path, slot: str, bytes_max: int = LOG_BYTES_MAX) -> None:
        make_private_folder(folder)
        self._bytes_max = bytes_max
        self.path = folder / f"{slot}.log"
        # appending: after the file is cut the process goes on at its new end
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)

    @property
    def has_text(self) -> bool:
        """Whether anything was printed: else nothing is kept."""
        return os.fstat(self.fd).st_size > 0

    def bound(self) -> None:
        """Moves the text away when there is too much of it. What is printed meanwhile may be lost."""
        if os.fstat(self.fd).st_size > self._bytes_max:
            moved = self.path.with_suffix(".log.1")
            with self.path.open("rb") as text, open(moved, "wb", opener=private_opener) as out:
                shutil.copyfileobj(text, out)
            os.ftruncate(self.fd, 0)

    def close(self) -> None:
        """The process has ended. A log without a word is removed."""
        with suppress(OSError):
            if not self.has_text:
                self.path.unlink(missing_ok=True)
        os.close(self.fd)


def prune_logs(folder: Path, keep: set[Path], logs_max: int = LOGS_MAX) -> None:
    """Removes the oldest logs; those in `keep` are of slots that run."""
    with suppress(OSError):
        ended = [path for path in folder.glob("*.log") if path not in keep]
        ended.sort(key=lambda path: path.stat().st_mtime)
        for path in ended[: max(len(ended) - logs_max, 0)]:
            path.unlink(missing_ok=True)
            path.with_suffix(".log.1").unlink(missing_ok=True)
