"""Rows of one text file as messages: lines, or records of CSV (RFC 4180), whose quoted fields may contain line breaks.

A record belongs to the line that it begins in, and positions are lines, so they do not depend on where a read begins.

Lines are joined only if the record is well-formed and has at most `RECORD_LINES_MAX` lines and `RECORD_BYTES_MAX`
bytes. Otherwise its first line is a message, which the format rejects, and the next record begins in the line after it:
so a quote that is never closed costs one row, or up to `RECORD_LINES_MAX` lines if later text closes it by chance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.connect.source import MessageBatch, Run, SourceContext, SplitId
from headrace.core.errors import DataError
from headrace.core.files.unpacked_file import UnpackedFile
from headrace.core.types import Schema
from headrace_connectors.files.file_columns import remark_on_columns
from headrace_connectors.files.paths import position_of

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
        """A remark for users on this file, or None."""
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


BLOCK_BYTES = 1 << 20
LINE_BYTES_MAX = 16 << 20
_BOM = b"\xef\xbb\xbf"


class TextBlocks:
    """An open text file. The last line may have no line end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = UnpackedFile(path)
        self._begun = False
        self._tail = b""

    def read(self, line: int) -> bytes:
        """The next lines, at least one, with LF behind each; empty at the end of the file. Line `line` is the first of
        them, counted from 0.

        Raises DataError for a line of more than 16 MiB.
        """
        while len(self._tail) <= LINE_BYTES_MAX:
            block = self._file.read(BLOCK_BYTES)
            text = self._tail + block
            if not self._begun and (len(text) >= len(_BOM) or not block):
                text, self._begun = text.removeprefix(_BOM), True
            if not block:
                self._tail = b""
                return text + b"\n" if text else b""
            end = text.rfind(b"\n") + 1
            self._tail = text[end:]
            if end:
                return text[:end]
        raise DataError(
            f"{self.path} line {line + 1} is longer than {LINE_BYTES_MAX >> 20} MiB",
            remedy="is it a text file with one record a line?",
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


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
                length = self._lines_of(lines[place : place + RECORD_LINES_MAX], ended=ended)
                if length is None:
                    break
                count = length
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


# ---- dialects of CSV -------------------------------------------------------------------------------------------------


Reorder = Callable[[Sequence[bytes]], list[bytes]]


@dataclass(frozen=True)
class CsvDialect:
    """Delimiter, quote and NULL text of a CSV file, and how they separate the fields of a record.

    Quotes are kept, so that the format decodes a field the same in any position.
    """

    delimiter: bytes = b","
    quote: bytes = b'"'
    null: bytes = b""

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> CsvDialect:
        """The dialect from the format's options."""
        given = {name: str(options[name]).encode() for name in ("delimiter", "quote", "null") if name in options}
        return CsvDialect(**given)

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        """A field that begins with the quote, closed or not, with the text behind it; or one without."""
        quote, delimiter = re.escape(self.quote), re.escape(self.delimiter)
        return re.compile(
            rb"%b[^%b]*+(?:%b%b[^%b]*+)*+(?:%b[^%b]*+)?|[^%b]*+"
            % (quote, quote, quote, quote, quote, quote, delimiter, delimiter)
        )

    def split(self, record: bytes) -> list[bytes]:
        """The raw fields of a record, with quotes; a delimiter inside quotes does not separate fields."""
        if self.quote not in record:
            return record.split(self.delimiter)
        fields, at = [], 0
        while True:
            match = self._field.match(record, at)
            assert match is not None, "the pattern matches the empty text"
            fields.append(match[0])
            at = match.end() + 1
            if at > len(record):
                return fields

    def name(self, field: bytes) -> str:
        """A column name from the header."""
        text = field.strip()
        if len(text) >= 2 and text.startswith(self.quote) and text.endswith(self.quote):
            text = text[1:-1].replace(self.quote * 2, self.quote)
        return text.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class HeaderFit:
    """How a file's header fits the schema. reorder: None if records are in schema order; remark: for users, or None."""

    reorder: Reorder | None = None
    remark: str | None = None


def fit_header(path: Path, header: bytes, schema: Schema, dialect: CsvDialect) -> HeaderFit:
    """Raises UserError if the header has no column of the schema, or lacks one that is not null."""
    names = [dialect.name(field) for field in dialect.split(header)]
    if tuple(names) == schema.names:
        return HeaderFit()
    remark = remark_on_columns(path, names, schema)
    places = [names.index(item.name) if item.name in names else None for item in schema]
    return HeaderFit(lambda records: [_reordered(each, places, len(names), dialect) for each in records], remark)


def _reordered(record: bytes, places: Sequence[int | None], count: int, dialect: CsvDialect) -> bytes:
    fields = dialect.split(record)
    if len(fields) != count:
        # more fields than the schema: the decoder rejects such a record, whatever its content
        return record + dialect.delimiter * (len(places) + 1)
    return dialect.delimiter.join(dialect.null if place is None else fields[place] for place in places)
