"""A job's log in its folder of the job store, for `headrace logs`. Bounded to two files of `LOG_BYTES_MAX`."""

from __future__ import annotations

import logging
import logging.handlers
import os
from collections import deque
from io import TextIOWrapper
from pathlib import Path

from headrace.client.models import LogLines
from headrace.coordinator.driver.log_position import end_of, lines_after, lines_up_to, parsed, position_text
from headrace.core.files.private_files import private_opener

MASTER_LOG = "job.log"
LOG_BYTES_MAX = 8 * 1024 * 1024
FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotating log file with mode 0600."""

    def _open(self) -> TextIOWrapper:
        descriptor = private_opener(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding=self.encoding)


class JobLog:
    """Writes the lines of the coordinator's log that contain the job's id."""

    def __init__(self, job: str, folder: Path) -> None:
        self._handler = _PrivateFile(
            folder / MASTER_LOG, maxBytes=LOG_BYTES_MAX, backupCount=1, delay=True, encoding="utf-8"
        )
        self._handler.setFormatter(logging.Formatter(FORMAT))
        self._handler.addFilter(lambda record: job in record.getMessage())
        self._logger = logging.getLogger("headrace.coordinator")
        self._logger.addHandler(self._handler)

    def close(self) -> None:
        """Closes the file. Idempotent."""
        self._logger.removeHandler(self._handler)
        self._handler.close()

    @staticmethod
    def read(folder: Path, lines: int, after: str | None = None) -> LogLines:
        """Returns the last lines of all the job's logs, oldest first; with a position all lines behind it, at most
        `READ_BYTES_MAX` of each file. Raises UserError if `after` is no position.
        """
        if after is None:
            end = end_of(folder)
            return LogLines(lines=tuple(deque(lines_up_to(folder, end), lines)), position=position_text(end))
        more, reached = lines_after(folder, parsed(after))
        return LogLines(lines=tuple(more), position=position_text(reached))
