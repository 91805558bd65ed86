"""Reads the first records of a file or topic to infer their schema. A bounded number of rows; not a data path.

For CSV it finds the delimiter, and in files whether the first line is a header. Messages have no header. Without one,
columns are named `column_1`, `column_2`, ..
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import polars as pl

from headrace.core.errors import UserError
from headrace.core.files.matching_files import matching_files
from headrace.core.files.unpacked_file import SUFFIXES, UnpackedFile
from headrace.core.polars_types import type_of
from headrace.core.types import Field, Schema, Timestamp
from headrace.formats.json.unreadable import readable
from headrace.local.inspection.disorder import measured, time_ms
from headrace.local.inspection.infer import Inferred, infer_rows, infer_texts, suggested_time, text_value

SampleFormat = Literal["json", "csv", "parquet"]
_BY_SUFFIX: dict[str, SampleFormat] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
_BUFFER_BYTES = 1 << 16
_FILE_LIKE = ("/", "*", *_BY_SUFFIX)


def is_file(target: str) -> bool:
    """Whether a target is a file: it exists, or has the form of a path."""
    return Path(target).exists() or any(mark in target for mark in _FILE_LIKE)


def infer_file(target: str, form: SampleFormat | None, rows_max: int, *, header: bool | None = None) -> Inferred:
    """Returns the schema of the first rows of a file, or of a glob's first file. Raises UserError.

    header: whether a CSV file's first line names the columns; None: found in the data.
    """
    path = _first_file(target)
    chosen = form or _BY_SUFFIX.get(_plain_suffix(path))
    match chosen:
        case None:
            raise UserError(f"{path}: the format cannot be detected", remedy="write --format json or --format csv")
        case "parquet":
            return _of_parquet(path, rows_max)
        case "json":
            with _opened(path) as lines:
                messages = ((0, line.encode()) for line in lines if line.strip())
                return infer_json(messages, str(path), rows_max)
        case "csv":
            with _opened(path) as lines:
                sample = file_sample(list(islice(lines, rows_max + 1)), str(path), header=header)
                return _of_csv(sample, [0] * len(sample.rows))


def infer_topic(brokers: str, topic: str, form: SampleFormat | None, rows_max: int) -> Inferred:
    """Returns the schema of the first messages of a topic, without tombstones. Raises UserError, UnreachableError."""
    from headrace.local.topics.records import consume

    if form == "parquet":
        raise UserError("messages of a topic are no parquet files", remedy="write --format json or --format csv")
    records = ((record.partition, record.value) for record in consume(brokers, topic, limit=rows_max))
    messages = ((partition, value) for partition, value in records if value)
    if form == "csv":
        taken = list(messages)
        sample, places = message_sample([value for _, value in taken], f"topic {topic}")
        return _of_csv(sample, [taken[place][0] for place in places])
    return infer_json(messages, f"topic {topic}", rows_max)


def infer_json(messages: Iterable[tuple[int, bytes]], where: str, rows_max: int) -> Inferred:
    """Returns the schema of JSON objects, given with their partitions. Raises UserError if there is none, or for a
    record that is no JSON object."""
    taken = list(islice(messages, rows_max))
    rows = list(_objects((value for _, value in taken), where))
    if not rows:
        raise UserError(f"{where} holds no rows to infer from")
    return _with_disorder(infer_rows(rows), [partition for partition, _ in taken], rows)


def _of_csv(sample: CsvSample, partitions: Sequence[int]) -> Inferred:
    inferred = replace(infer_texts(sample.rows), format=sample.format, naming=sample.note)
    rows = [{name: text_value(text) for name, text in row.items()} for row in sample.rows]
    return _with_disorder(inferred, partitions, rows)


def _with_disorder(inferred: Inferred, partitions: Sequence[int], rows: Sequence[Mapping[str, object]]) -> Inferred:
    """Adds the disorder of the event-time column."""
    column = inferred.time
    if column is None:
        return inferred
    dtype = inferred.schema.field(column).type
    assert isinstance(dtype, Timestamp), "the event time is a timestamp"
    times = (
        (partition, at)
        for partition, row in zip(partitions, rows, strict=True)
        if (at := time_ms(row.get(column), dtype)) is not None
    )
    return replace(inferred, disorder=measured(times))


def _objects(messages: Iterable[bytes], where: str) -> Iterator[Mapping[str, object]]:
    for number, message in enumerate(messages, start=1):
        try:
            value = json.loads(readable(message.decode("utf-8-sig")))
        except ValueError as error:
            remedy = "json is one object per line; for other data write --format csv"
            raise UserError(f"{where}: record {number} is not JSON: {error}", remedy=remedy) from error
        if not isinstance(value, dict):
            raise UserError(f"{where}: record {number} is no JSON object but {type(value).__name__}")
        yield value


def _of_parquet(path: Path, rows_max: int) -> Inferred:
    try:
        rows = pl.scan_parquet(path, glob=False).head(rows_max).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{path} is not a Parquet file: {error}") from error
    notes: dict[str, str] = {}
    fields = []
    for name, column in rows.to_dict().items():
        dtype = type_of(column.dtype)
        if dtype is None:
            notes[name] = f"left out: headrace has no type for {column.dtype}"
        else:
            fields.append(Field(name, dtype, nullable=column.null_count() > 0 or not rows.height))
    schema = Schema(tuple(fields))
    inferred = Inferred(schema, notes, suggested_time(schema), rows.height)
    times = [] if inferred.time is None else rows.select(inferred.time).to_dicts()
    return _with_disorder(inferred, [0] * len(times), times)


def _first_file(target: str) -> Path:
    path = Path(target)
    if path.is_dir():
        raise UserError(f"{path} is a folder", remedy=f"name a file in it, or a glob such as '{path}/*.jsonl'")
    if path.exists():
        return path
    found = matching_files(target)
    if not found:
        raise UserError(f"there is no file {target}", remedy="for a Kafka topic, write its name and --brokers")
    return found[0]


def _plain_suffix(path: Path) -> str:
    """The end of the file's name without that of compression."""
    return (path.with_suffix("") if path.suffix.lower() in SUFFIXES else path).suffix.lower()


def _opened(path: Path) -> _Lines:
    return _Lines(path)


class _Lines:
    """The lines of a text file; its errors are raised as UserError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Iterator[str]:
        try:
            content = io.BufferedReader(UnpackedFile(self._path), _BUFFER_BYTES)
        except OSError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror}") from error
        self._file = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
        return self._checked()

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _checked(self) -> Iterator[str]:
        try:
            yield from self._file
        except UnicodeDecodeError as error:
            raise UserError(f"{self._path} is not UTF-8 text") from error


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
