"""Infers a schema from CSV: finds the delimiter, and in files whether the first line is a header. Pure.

Messages have no header. Without one, columns are named `column_1`, `column_2`, ..
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.core.errors import UserError
from headrace.local.inspection.infer import text_value

DELIMITERS = (",", ";", "\t", "|")
DELIMITER_LINES = 200
"""Most lines by which the delimiter is found."""


@dataclass(frozen=True, slots=True)
class CsvSample:
    """CSV rows by column name. format: the source's format as YAML; note: how columns got their names."""

    rows: Sequence[Mapping[str, str]]
    format: str
    note: str


def message_sample(messages: Iterable[bytes], where: str) -> tuple[CsvSample, tuple[int, ...]]:
    """The sample of messages of one CSV row each, and the indexes of the messages that are in it.

    Messages with another number of fields than most are left out: they are no rows of this schema. Raises UserError if
    there is no message.
    """
    texts = [message.decode("utf-8", "replace").rstrip("\r\n") for message in messages]
    if not texts:
        raise UserError(f"{where} holds no rows to infer from")
    delimiter = delimiter_of(texts)
    split = [(number, row) for number, text in enumerate(texts) if (row := _fields(text, delimiter))]
    width = _width([row for _, row in split], where)
    kept = [(number, row) for number, row in split if len(row) == width]
    names = _numbered(width)
    rows = [dict(zip(names, row, strict=True)) for _, row in kept]
    note = "messages have no header: columns are named column_1, column_2, .."
    return CsvSample(rows, _format(delimiter, header=False), note), tuple(number for number, _ in kept)


def file_sample(lines: Sequence[str], where: str, *, header: bool | None) -> CsvSample:
    """The sample of a file's first lines. header: whether the first line names the columns; None: found in the data.

    Raises UserError if there are no rows, or if a header names no columns or some twice.
    """
    if not lines:
        raise UserError(f"{where} holds no rows to infer from")
    delimiter = delimiter_of([line.rstrip("\r\n") for line in lines[:DELIMITER_LINES]])
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    width = _width(rows, where)
    first, rest = rows[0], rows[1:]
    if header is None:
        header = looks_like_header(first, rest)
        found = " (--no-header if they are data)" if header else " (--header if it does)"
    else:
        found = ""
    if not header:
        names = _numbered(width)
        note = f"the first line names no columns{found}: they are named column_1, column_2, .."
        kept = [dict(zip(names, row, strict=True)) for row in rows if len(row) == width]
        return CsvSample(kept, _format(delimiter, header=False), note)
    if not all(first) or len(set(first)) != len(first):
        raise UserError(
            f"{where}: the first line names no columns, or some twice",
            remedy="--no-header numbers the columns, if it is a row",
        )
    kept = [dict(zip(first, row, strict=False)) for row in rest]
    if not kept:
        raise UserError(f"{where} holds no rows to infer from")
    return CsvSample(kept, _format(delimiter, header=True), f"the first line names the columns{found}")


def looks_like_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first row can only be names: all are texts, each other, and no row after it has them all.

    A row of data nearly always has a number, a time or an empty field.
    """
    are_names = all(isinstance(text_value(text), str) and not _is_time(text) for text in first)
    if not are_names or not all(first):
        return False
    # names do not come again as data, and data of a column of few values does
    again = sum(any(len(row) > at and row[at] == text for row in rest) for at, text in enumerate(first))
    return again == 0


def _is_time(text: str) -> bool:
    return len(text) >= 8 and text[:4].isdecimal() and text[4] == "-"


def delimiter_of(texts: Sequence[str]) -> str:
    """The delimiter that gives most rows the same number of fields, at least two; a comma if none does."""
    best, best_score = DELIMITERS[0], (0, 0)
    for delimiter in DELIMITERS:
        widths = Counter(len(row) for text in texts if (row := _fields(text, delimiter)))
        width, count = widths.most_common(1)[0] if widths else (0, 0)
        if width > 1 and (count, width) > best_score:
            best, best_score = delimiter, (count, width)
    return best


def _fields(text: str, delimiter: str) -> list[str]:
    return next(csv.reader([text], delimiter=delimiter), [])


def _width(rows: Sequence[Sequence[str]], where: str) -> int:
    """The number of fields that most rows have."""
    if not rows:
        raise UserError(f"{where} holds no rows to infer from")
    return Counter(map(len, rows)).most_common(1)[0][0]


def _numbered(width: int) -> list[str]:
    return [f"column_{number}" for number in range(1, width + 1)]


def _format(delimiter: str, *, header: bool) -> str:
    options = ", ".join(_options(delimiter, header=header))
    return f"{{csv: {{{options}}}}}" if options else "csv"


def _options(delimiter: str, *, header: bool) -> Iterator[str]:
    if delimiter != ",":
        yield 'delimiter: "\\t"' if delimiter == "\t" else f'delimiter: "{delimiter}"'
    if header:
        yield "header: true"
