"""Reads a text file as lines, from any line on. Knows nothing of the lines' content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace_connectors.files.text_blocks import TextBlocks


class LineFile:
    """An open text file. Lines end with LF or CRLF. next_line: that is read next, counted from 0."""

    def __init__(self, path: Path, *, skip: int = 0) -> None:
        """Opens at line `skip`, counted from 0."""
        self.next_line = 0
        self._blocks = TextBlocks(path)
        self._lines: list[bytes] = []
        self._taken = 0
        while self.next_line < skip:
            if not self.read_records(skip - self.next_line)[0]:
                break

    def read_records(self, lines_max: int) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        """The next lines without their ends, at least one and at most `lines_max`, and their numbers; empty at the end
        of the file."""
        if self._taken == len(self._lines):
            self._fill()
        lines = self._lines[self._taken : self._taken + lines_max]
        first = self.next_line
        self._taken += len(lines)
        self.next_line += len(lines)
        return lines, np.arange(first, self.next_line, dtype=np.int64)

    def _fill(self) -> None:
        text = self._blocks.read(self.next_line)
        self._lines, self._taken = text.split(b"\n"), 0
        # behind the last LF
        self._lines.pop()
        if b"\r" in text:
            self._lines = [line[:-1] if line.endswith(b"\r") else line for line in self._lines]

    def close(self) -> None:
        """Closes the file."""
        self._blocks.close()
