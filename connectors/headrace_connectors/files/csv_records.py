"""Reads a CSV file as records (RFC 4180): a line break inside of quotes is text of a field. Knows no columns.

A record belongs to the line that it begins in, and positions are lines, so they do not depend on where a read begins.

Lines are joined only if the record is well-formed and has at most `RECORD_LINES_MAX` lines and `RECORD_BYTES_MAX`
bytes. Otherwise its first line is a message, which the format rejects, and the next record begins in the line after it:
so a quote that is never closed costs one row, or up to `RECORD_LINES_MAX` lines if later text closes it by chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace_connectors.files.csv_dialect import CsvDialect
from headrace_connectors.files.text_blocks import TextBlocks

RECORD_LINES_MAX = 1_000
RECORD_BYTES_MAX = 1 << 20
_LF = ord("\n")
_PART_BYTES = 1 << 16
"""Masks of larger parts would be new memory for each, and take twice as long."""

Lines = npt.NDArray[np.int64]


class RecordFile:
    """An open CSV file. next_line: where the next record begins, counted from 0."""

    def __init__(self, path: Path, dialect: CsvDialect, *, skip: int = 0) -> None:
        """Opens at the first record that begins in line `skip` or later."""
        self.next_line = 0
        self._blocks = TextBlocks(path)
        self._syntax = _Syntax(dialect)
        self._rest = b""
        """Lines behind the records, which begin a record that may end in a later block."""
        self._records: list[bytes] = []
        self._begins: Lines = np.zeros(1, np.int64)
        """The line in which each record begins, and the one behind the last."""
        self._taken = 0
        while self.next_line < skip:
            if not self.read_records(skip - self.next_line)[0]:
                break

    def read_records(self, lines_max: int) -> tuple[list[bytes], Lines]:
        """The next records that begin within `lines_max` lines, without line ends, at least one, and their lines; empty
        at the end of the file."""
        if self._taken == len(self._records):
            self._fill()
        begin, bound = self._taken, self.next_line + lines_max
        end = int(np.searchsorted(self._begins[:-1], bound))
        self._taken, self.next_line = end, int(self._begins[end])
        return self._records[begin:end], self._begins[begin:end]

    def _fill(self) -> None:
        """Reads blocks up to the first whole record, or the end of the file."""
        self._records, self._taken, ended = [], 0, False
        while not self._records and not ended:
            block = self._blocks.read(self.next_line + self._rest.count(b"\n"))
            ended = not block
            text = self._rest + block
            lines = text.split(b"\n")
            # behind the last LF
            lines.pop()
            counts = self._syntax.records(lines, text, ended=ended)
            places = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            self._records = _joined(lines, places)
            if b"\r" in text:
                self._records = [each[:-1] if each.endswith(b"\r") else each for each in self._records]
            self._begins = places + self.next_line
            self._rest = b"\n".join([*lines[int(places[-1]) :], b""])

    def close(self) -> None:
        """Closes the file."""
        self._blocks.close()


def _joined(lines: Sequence[bytes], places: Lines) -> list[bytes]:
    """The records that lie between these places in the lines."""
    count = len(places) - 1
    if int(places[-1]) == count:
        return list(lines[:count])
    return [b"\n".join(lines[begin:end]) for begin, end in pairwise(places.tolist())]


class _Syntax:
    """Finds where records end."""

    def __init__(self, dialect: CsvDialect) -> None:
        self._quote, self._delimiter = dialect.quote, dialect.delimiter

    def records(self, lines: Sequence[bytes], text: bytes, *, ended: bool) -> Lines:
        """The number of lines of each record in these lines, up to one that may end in later lines, if there are any.

        text: the lines with LF behind each
        """
        if self._quote not in text:
            return np.ones(len(lines), np.int64)
        counts = self._by_parity(text, ended=ended)
        return self._line_by_line(lines, ended=ended) if counts is None else counts

    def _by_parity(self, text: bytes, *, ended: bool) -> Lines | None:
        """As `records`, by whole arrays; None if a quote is where it neither opens nor closes a field, or a record is
        too large."""
        data = np.frombuffer(text, np.uint8)
        marks = self._marks(data)
        is_end = data[marks] == _LF
        if not self._are_well_placed(data, marks[~is_end]):
            return None
        line_ends, at = marks[is_end], np.flatnonzero(is_end)
        # the number of quotes before a line end is even outside of quotes
        last = np.flatnonzero((at - np.arange(len(at))) & 1 == 0)
        ends, counts = line_ends[last], np.diff(last, prepend=-1)
        is_long = (counts > RECORD_LINES_MAX) | ((counts > 1) & (np.diff(ends, prepend=-1) > RECORD_BYTES_MAX))
        behind = 1 + int(ends[-1]) if len(ends) else 0
        left = len(line_ends) - int(counts.sum())
        # the lines behind the last record are the begin of one, as far as there may be more of it
        if is_long.any() or (left and (ended or left >= RECORD_LINES_MAX or len(text) - behind >= RECORD_BYTES_MAX)):
            return None
        return counts

    def _marks(self, data: npt.NDArray[np.uint8]) -> Lines:
        """The places of quotes and LFs."""
        parts = [
            np.flatnonzero((part == self._quote[0]) | (part == _LF)) + begin
            for begin in range(0, len(data), _PART_BYTES)
            for part in [data[begin : begin + _PART_BYTES]]
        ]
        return np.concatenate(parts)

    def _are_well_placed(self, data: npt.NDArray[np.uint8], quotes: Lines) -> bool:
        """Whether each quote opens a field or closes one, or is one of two inside of quotes."""
        delimiter, quote = self._delimiter[0], self._quote[0]
        # before the first byte is the LF of the last
        before, behind = data[quotes[::2] - 1], data[quotes[1::2] + 1]
        opens = (before == delimiter) | (before == _LF) | (before == quote)
        closes = (behind == delimiter) | (behind == _LF) | (behind == quote)
        if not closes.all():
            next_to = data[np.minimum(quotes[1::2] + 2, len(data) - 1)]
            closes |= (behind == ord("\r")) & (next_to == _LF)
        return bool(opens.all() and closes.all())

    def _line_by_line(self, lines: Sequence[bytes], *, ended: bool) -> Lines:
        """As `records`, for any text."""
        counts, place = [], 0
        while place < len(lines):
            count = 1
            if self._quote in lines[place] and self._record.fullmatch(lines[place]) is None:
                found = self._lines_of(lines[place : place + RECORD_LINES_MAX], ended=ended)
                if found is None:
                    break
                count = found
            counts.append(count)
            place += count
        return np.array(counts, np.int64)

    def _lines_of(self, lines: Sequence[bytes], *, ended: bool) -> int | None:
        """The number of lines of the record that begins these, 1 if it has no end; None: it may end in later lines."""
        text = b"\n".join(lines)
        record = self._record.match(text, 0, RECORD_BYTES_MAX)
        end = 0 if record is None else record.end()
        if end and (end == len(text) or text[end] == _LF):
            return text.count(b"\n", 0, end) + 1
        is_open = self._open.fullmatch(text) is not None
        more = not ended and len(lines) < RECORD_LINES_MAX and len(text) < RECORD_BYTES_MAX
        return None if is_open and more else 1

    @cached_property
    def _record(self) -> re.Pattern[bytes]:
        """A well-formed record, up to its line end."""
        # an atomic group: before Python 3.11.5, a possessive repeat of alternatives matches wrongly (gh-106052)
        return re.compile(rb"(?>%b(?:%b%b)*)\r?" % (self._field, re.escape(self._delimiter), self._field))

    @cached_property
    def _open(self) -> re.Pattern[bytes]:
        """A text that ends inside of quotes."""
        return re.compile(rb"(?>(?:%b%b)*)%b" % (self._field, re.escape(self._delimiter), self._inside))

    @property
    def _inside(self) -> bytes:
        """A quote and the text behind it, as far as that is quoted."""
        quote = re.escape(self._quote)
        return rb"%b[^%b]*+(?:%b%b[^%b]*+)*+" % (quote, quote, quote, quote, quote)

    @property
    def _field(self) -> bytes:
        quote, delimiter = re.escape(self._quote), re.escape(self._delimiter)
        return rb"(?:%b%b(?=%b|\r?(?:\n|\Z))|(?!%b)[^%b\n]*+)" % (self._inside, quote, delimiter, quote, delimiter)
