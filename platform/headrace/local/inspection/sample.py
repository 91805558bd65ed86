"""Reads the first records of a file or topic to infer their schema. A bounded number of rows; not a data path."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

import polars as pl

from headrace.core.errors import UserError
from headrace.core.types import TIMESTAMP, DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.json.unreadable import readable
from headrace.local.inspection.csv_messages import CsvSample, file_sample, message_sample
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
_FILE_LIKE = ("/", "*", *_BY_SUFFIX)


def is_file(target: str) -> bool:
    """Whether a target is a file: it exists, or has the form of a path."""
    return Path(target).exists() or any(mark in target for mark in _FILE_LIKE)


def infer_file(target: str, form: SampleFormat | None, rows_max: int, *, header: bool | None = None) -> Inferred:
    """Returns the schema of the first rows of a file, or of a glob's first file. Raises UserError.

    header: whether a CSV file's first line names the columns; None: found in the data.
    """
    path = _first_file(target)
    chosen = form or _BY_SUFFIX.get(path.suffix.lower())
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
        rows = pl.scan_parquet(path).head(rows_max).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{path} is not a Parquet file: {error}") from error
    notes: dict[str, str] = {}
    fields = []
    for name, column in rows.to_dict().items():
        dtype = _type_of(column.dtype)
        if dtype is None:
            notes[name] = f"left out: headrace has no type for {column.dtype}"
        else:
            fields.append(Field(name, dtype, nullable=column.null_count() > 0 or not rows.height))
    schema = Schema(tuple(fields))
    inferred = Inferred(schema, notes, suggested_time(schema), rows.height)
    times = [] if inferred.time is None else rows.select(inferred.time).to_dicts()
    return _with_disorder(inferred, [0] * len(times), times)


_PLAIN: tuple[tuple[Callable[[pl.DataType], bool], DataType], ...] = (
    (lambda t: t == pl.Boolean, Primitive.BOOL),
    (lambda t: t in (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16), Primitive.INT32),
    (lambda t: t in (pl.Int64, pl.UInt32), Primitive.INT64),
    (lambda t: t == pl.Float32, Primitive.FLOAT32),
    (lambda t: t == pl.Float64, Primitive.FLOAT64),
    (lambda t: t == pl.String or isinstance(t, pl.Categorical | pl.Enum), Primitive.STRING),
    (lambda t: t == pl.Binary, Primitive.BINARY),
    (lambda t: t == pl.Date, Primitive.DATE),
    (lambda t: isinstance(t, pl.Datetime), TIMESTAMP),
)


def _type_of(dtype: pl.DataType) -> DataType | None:
    """Returns headrace's type for one of polars, or None."""
    match dtype:
        case pl.Decimal():
            return Decimal(dtype.precision or 38, dtype.scale)
        case pl.List():
            inner = _type_of(dtype.inner)  # type: ignore[arg-type]
            return None if inner is None else ListOf(inner)
        case pl.Struct():
            fields = [(item.name, _type_of(item.dtype)) for item in dtype.fields]  # type: ignore[arg-type]
            known = tuple(Field(name, inner) for name, inner in fields if inner is not None)
            return Struct(known) if known and len(known) == len(fields) else None
        case _:
            return next((ours for fits, ours in _PLAIN if fits(dtype)), None)


def _first_file(target: str) -> Path:
    path = Path(target)
    if path.is_dir():
        raise UserError(f"{path} is a folder", remedy=f"name a file in it, or a glob such as '{path}/*.jsonl'")
    if path.exists():
        return path
    found = sorted(glob.glob(target, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not found:
        raise UserError(f"there is no file {target}", remedy="for a Kafka topic, write its name and --brokers")
    return Path(found[0])


def _opened(path: Path) -> _Lines:
    return _Lines(path)


class _Lines:
    """The lines of a text file; its errors are raised as UserError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Iterator[str]:
        try:
            self._file = self._path.open(encoding="utf-8-sig", newline="")
        except OSError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror}") from error
        return self._checked()

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _checked(self) -> Iterator[str]:
        try:
            yield from self._file
        except UnicodeDecodeError as error:
            raise UserError(f"{self._path} is not UTF-8 text") from error
