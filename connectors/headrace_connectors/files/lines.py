"""Reads a text file as lines, block by block, from any line on. Knows nothing of the lines' content."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.core.errors import DataError

BLOCK_BYTES = 1 << 20
LINE_BYTES_MAX = 16 << 20
_BOM = b"\xef\xbb\xbf"


class LineFile:
    """An open text file. Lines end with LF or CRLF; the last one may have no line end."""

    def __init__(self, path: Path, *, skip: int = 0) -> None:
        """Opens at line `skip`, counted from 0."""
        self.path = path
        self.next_line = 0
        self._file = path.open("rb")
        self._lines: list[bytes] = []
        self._taken = 0
        self._tail = b""
        self._ended = False
        while self.next_line < skip:
            if not self.read_lines(skip - self.next_line):
                break

    def read_lines(self, count_max: int) -> list[bytes]:
        """The next lines without their ends, at least one and at most `count_max`; empty at the end of the file.

        Raises DataError for a line of more than 16 MiB.
        """
        if self._taken == len(self._lines):
            self._fill()
        lines = self._lines[self._taken : self._taken + count_max]
        self._taken += len(lines)
        self.next_line += len(lines)
        return lines

    def _fill(self) -> None:
        """Reads blocks up to the first whole line, or the end of the file."""
        self._lines, self._taken = [], 0
        while not self._lines and not self._ended:
            if len(self._tail) > LINE_BYTES_MAX:
                raise DataError(
                    f"{self.path} line {self.next_line + 1} is longer than {LINE_BYTES_MAX >> 20} MiB",
                    remedy="is it a text file with one record a line?",
                )
            block = self._file.read(BLOCK_BYTES)
            self._ended = not block
            text = self._tail + block
            if self.next_line == 0:
                text = text.removeprefix(_BOM)
            *self._lines, self._tail = text.split(b"\n")
            if self._ended and self._tail:
                self._lines.append(self._tail)
            if b"\r" in text:
                self._lines = [line[:-1] if line.endswith(b"\r") else line for line in self._lines]

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
