"""Logs of slots: one file for each slot process, bounded in size and number."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, private_opener

LOG_BYTES_MAX = 32 << 20
"""Limit of the file that is written to. The text before it is kept as `<slot>.log.1`."""
LOGS_MAX = 50
"""How many logs of ended slots are kept: the newest."""


class SlotLog:
    """One slot's log, open for its process to append to until `close`."""

    def __init__(self, folder: Path, slot: str, bytes_max: int = LOG_BYTES_MAX) -> None:
        make_private_folder(folder)
        self._bytes_max = bytes_max
        self.path = folder / f"{slot}.log"
        # O_APPEND: after `bound` has truncated the file, the process continues to write at its new end
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)

    @property
    def has_text(self) -> bool:
        """Whether the slot has printed anything; an empty log is removed."""
        return os.fstat(self.fd).st_size > 0

    def bound(self) -> None:
        """Copies a log above its limit to `<slot>.log.1` and truncates it. Text printed meanwhile may be lost."""
        if os.fstat(self.fd).st_size > self._bytes_max:
            moved = self.path.with_suffix(".log.1")
            with self.path.open("rb") as text, open(moved, "wb", opener=private_opener) as out:
                shutil.copyfileobj(text, out)
            os.ftruncate(self.fd, 0)

    def close(self) -> None:
        """Closes the log after its process has ended, and removes it if it is empty."""
        with suppress(OSError):
            if not self.has_text:
                self.path.unlink(missing_ok=True)
        os.close(self.fd)


def prune_logs(folder: Path, keep: set[Path], logs_max: int = LOGS_MAX) -> None:
    """Removes the oldest logs of ended slots. `keep`: logs of running slots."""
    with suppress(OSError):
        ended = [path for path in folder.glob("*.log") if path not in keep]
        ended.sort(key=lambda path: path.stat().st_mtime)
        for path in ended[: max(len(ended) - logs_max, 0)]:
            path.unlink(missing_ok=True)
            path.with_suffix(".log.1").unlink(missing_ok=True)
