"""A job's log in its folder of the job store, for `headrace logs`. Bounded to two files of `LOG_BYTES_MAX`.

With `--follow` the log is read from a position on. A position names, for each file, a checksum of its first line and
the offset behind the last complete line that was read. A file that was rotated meanwhile is found by its first line,
which has a time: its rest is read from `NAME.1`, then the new file from its beginning. (An inode would not do: the
system reuses it for the next file.) A file that is not in the position is read from its beginning.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

from headrace.client.models import LogLines
from headrace.core.errors import UserError
from headrace.core.files.home_files import private_opener

MASTER_LOG = "job.log"
LOG_BYTES_MAX = 8 * 1024 * 1024
FORMAT = "%(asctime)s %(levelname)s %(message)s"
READ_BYTES_MAX = 1024 * 1024
"""Most bytes of one file in one answer; the next request continues behind them."""
POSITION_LENGTH_MAX = 4_096
_ENTRY = re.compile(r"([\w.-]+):(\d+):(\d+)")


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


@dataclass(frozen=True, slots=True)
class FileOffset:
    """A position in a file. first: CRC-32 of its first line; 0: it has none yet."""

    first: int
    offset: int


Position = Mapping[str, FileOffset]
"""File name -> offset."""


def parsed(text: str) -> dict[str, FileOffset]:
    """Returns the position of a text. Raises UserError if it is none."""
    entries = text.split(",") if text else []
    found = [_ENTRY.fullmatch(entry) for entry in entries]
    if len(text) > POSITION_LENGTH_MAX or None in found:
        raise UserError("this is no position in a log", remedy="send `position` of an earlier answer as it is")
    return {match[1]: FileOffset(int(match[2]), int(match[3])) for match in found if match is not None}


def position_text(position: Position) -> str:
    """Returns a position as text: `job.log:77:1024,connector-host.log:78:0`."""
    return ",".join(f"{name}:{at.first}:{at.offset}" for name, at in sorted(position.items()))


def end_of(folder: Path) -> dict[str, FileOffset]:
    """Returns the position behind the last complete line of each log."""
    ends = {}
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        ends[path.name] = FileOffset(_checksum(data), data.rfind(b"\n") + 1)
    return ends


def lines_up_to(folder: Path, end: Position) -> Iterator[str]:
    """Yields all lines before a position, oldest first in each file; rotated files first."""
    for path in sorted(folder.glob("*.log.1")):
        yield from _lines(path.read_bytes())
    for name, at in sorted(end.items()):
        path = folder / name
        if path.exists():
            yield from _lines(path.read_bytes()[: at.offset])


def lines_after(folder: Path, position: Position) -> tuple[list[str], dict[str, FileOffset]]:
    """Returns the complete lines behind a position, and the position behind them."""
    lines: list[str] = []
    reached: dict[str, FileOffset] = {}
    for path in sorted(folder.glob("*.log")):
        more, reached[path.name] = _after(path, position.get(path.name))
        lines += more
    return lines, reached


def _after(path: Path, at: FileOffset | None) -> tuple[list[str], FileOffset]:
    first = _first(path)
    if at is None or at.offset == 0 or at.first == first:
        return _read(path, FileOffset(first, 0 if at is None else at.offset))
    rotated = path.with_name(f"{path.name}.1")
    if not rotated.exists() or _first(rotated) != at.first:
        return _read(path, FileOffset(first, 0))
    rest, reached = _read(rotated, at)
    # the rest may take several answers: the new file follows once it is read
    if rest:
        return rest, reached
    return _read(path, FileOffset(first, 0))


def _first(path: Path) -> int:
    with path.open("rb") as file:
        return _checksum(file.readline(READ_BYTES_MAX))


def _checksum(data: bytes) -> int:
    line, end, _ = data.partition(b"\n")
    return zlib.crc32(line) if end else 0


def _read(path: Path, at: FileOffset) -> tuple[list[str], FileOffset]:
    with path.open("rb") as file:
        file.seek(at.offset)
        data = file.read(READ_BYTES_MAX)
    # a line longer than the limit is cut, or the position would never move on
    whole = data if len(data) == READ_BYTES_MAX and b"\n" not in data else data[: data.rfind(b"\n") + 1]
    return list(_lines(whole)), FileOffset(at.first, at.offset + len(whole))


def _lines(data: bytes) -> Iterator[str]:
    yield from data.decode(errors="replace").splitlines()
