"""Rows of one text file as messages: lines, or records of CSV (`csv_records`)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.connect.source import MessageBatch, Run, SourceContext, SplitId
from headrace_connectors.files.csv_dialect import CsvDialect, HeaderFit, fit_header
from headrace_connectors.files.csv_records import RecordFile
from headrace_connectors.files.paths import position_of
from headrace_connectors.files.text_blocks import TextBlocks

_BLANKS = b" \t\r\n\v\f"


class _Messages(Protocol):
    """An open file of messages."""

    next_line: int

    def read_records(self, lines_max: int) -> tuple[list[bytes], npt.NDArray[np.int64]]: ...

    def close(self) -> None: ...


class TextRows:
    """Messages of one file. Blank ones are skipped in JSON and CSV files, and are messages in raw ones."""

    def __init__(self, path: Path, context: SourceContext, line: int) -> None:
        self._fit = HeaderFit()
        self._blanks: bytes | None = None if context.format == "raw" else _BLANKS
        self._file: _Messages
        if context.format == "csv":
            dialect = CsvDialect.from_options(context.format_options)
            # fields without text are a row
            self._blanks = _BLANKS.replace(dialect.delimiter, b"")
            if _is_true(context.format_options.get("header")):
                line = max(line, self._read_header(path, context, dialect))
            self._file = RecordFile(path, dialect, skip=line)
        else:
            self._file = LineFile(path, skip=line)

    def _read_header(self, path: Path, context: SourceContext, dialect: CsvDialect) -> int:
        """Fits the header to the schema; returns the line behind it."""
        with closing(RecordFile(path, dialect)) as top:
            header, _ = top.read_records(1)
            if header:
                self._fit = fit_header(path, header[0], context.schema, dialect)
            return max(top.next_line, 1)

    @property
    def next_line(self) -> int:
        """The line in which the next message begins, counted from 0."""
        return self._file.next_line

    @property
    def remark(self) -> str | None:
        """What users should know of this file, or None."""
        return self._fit.remark

    def read(self, split: SplitId, file: int, lines_max: int) -> MessageBatch | None:
        """The messages that begin in the next lines, at least one, as a batch; None at the end of the file."""
        messages, begins = self._file.read_records(lines_max)
        if not messages:
            return None
        positions = begins + position_of(file, 0)
        blanks = self._blanks
        if blanks is not None and any(not each.strip(blanks) for each in messages):
            full = [index for index, each in enumerate(messages) if each.strip(blanks)]
            messages, positions = [messages[index] for index in full], positions[full]
        if self._fit.reorder is not None:
            messages = self._fit.reorder(messages)
        values = pl.Series(messages, dtype=pl.Binary).to_arrow(compat_level=pl.CompatLevel.newest())
        return MessageBatch(values, positions, (Run(split, 0, len(messages)),))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _is_true(option: object) -> bool:
    return option is True or str(option).lower() == "true"


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
