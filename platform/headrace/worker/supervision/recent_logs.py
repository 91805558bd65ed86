"""The newest lines that a worker and its slots have logged, for users who look at the worker from elsewhere.

The worker keeps its own lines in memory, because its output may go anywhere: to a file, a pod's log, a container's.
Lines of slots are read from the end of their logs.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from headrace.worker.supervision.slot_process import SlotProcess

LINES_MAX = 500
LINE_CHARS_MAX = 4_000
SLOT_BYTES_MAX = 64 * 1024
"""Most text of one slot."""
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class RecentLines(logging.Handler):
    """The newest lines of this process's log, from `start` to `stop`."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def start(self) -> None:
        """Begins to receive what is logged, where logging is configured: elsewhere, as in `headrace run`, Python prints
        warnings itself as long as there is no handler."""
        if logging.getLogger().hasHandlers():
            logging.getLogger().addHandler(self)

    def stop(self) -> None:
        """Receives no more. Idempotent."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`, under the handler's lock."""
        self._lines.append(self.format(record)[:LINE_CHARS_MAX])

    @property
    def text(self) -> str:
        """The lines."""
        with self.lock:  # type: ignore[union-attr] # typed as of a handler without a lock
            return "".join(f"{line}\n" for line in self._lines)


def all_logs(own: RecentLines, slots: Iterable[SlotProcess]) -> str:
    """The newest lines of this process, then those of its slots. Blocking."""
    parts = [f"== worker, pid {os.getpid()}\n{own.text}"]
    parts += [f"== slot {slot.name}, pid {slot.pid}\n{_end_of(slot.log.path)}" for slot in slots]
    return "\n".join(parts)


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - SLOT_BYTES_MAX)
            file.seek(begin)
            data = file.read(SLOT_BYTES_MAX)
    except OSError as error:
        return f"its log cannot be read: {error.strerror}\n"
    # the first line may have lost its beginning
    return (data.partition(b"\n")[2] if begin else data).decode(errors="replace")
