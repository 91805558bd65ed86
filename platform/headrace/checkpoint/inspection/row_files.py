"""Writes rows that arrive in pieces to a file whose suffix names its format: Parquet, JSON lines, or CSV.

Holds one piece. The file appears under its name once it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow.parquet as pq

from headrace.connect.format import Encoder
from headrace.core.errors import HeadraceError, UserError
from headrace.core.polars_types import INT128_IN_ARROW, type_of
from headrace.core.types import Field, Primitive, Schema
from headrace.formats.csv import CsvFormat
from headrace.formats.json import JsonFormat

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    "": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}


def write_rows(frames: Iterable[pl.DataFrame], columns: Mapping[str, pl.DataType], target: Path) -> int:
    """Writes all rows; returns their number. columns: of every frame, in order. 128-bit integers become decimals.

    Raises UserError for a suffix that is unknown, columns that the format cannot hold, or a file that cannot be
    written; then the target is as it was.
    """
    plain = {name: INT128_IN_ARROW if dtype == pl.Int128 else dtype for name, dtype in columns.items()}
    part = target.with_name(f".{target.name}.part")
    rows = 0
    try:
        with _opened(target, part, plain) as file:
            for frame in frames:
                file.write(frame.select(pl.col(name).cast(dtype) for name, dtype in plain.items()))
                rows += frame.height
        part.replace(target)
    except OSError as error:
        _discard(part)
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error
    except HeadraceError:
        _discard(part)
        raise
    return rows


class _RowFile(Protocol):
    def __enter__(self) -> _RowFile: ...

    def __exit__(self, *error: object) -> None: ...

    def write(self, rows: pl.DataFrame) -> None: ...


def _opened(target: Path, part: Path, columns: Mapping[str, pl.DataType]) -> _RowFile:
    form = _SUFFIXES.get(target.suffix.lower())
    if form is None:
        raise UserError(
            f"{target}: {target.suffix} names no format of rows", remedy="end its name in .parquet, .jsonl or .csv"
        )
    if form == "parquet":
        return _ParquetFile(part, columns)
    schema = Schema(tuple(Field(name, type_of(dtype) or Primitive.STRING) for name, dtype in columns.items()))
    if form == "json":
        return _TextFile(part, JsonFormat().open_encoder(schema))
    csv = CsvFormat(header=True)
    if problems := csv.check_sink(schema):
        raise UserError(f"{target}: {problems[0]}", remedy="end its name in .parquet or .jsonl")
    return _TextFile(part, csv.open_encoder(schema))


class _ParquetFile:
    def __init__(self, path: Path, columns: Mapping[str, pl.DataType]) -> None:
        self._schema = pl.DataFrame(schema=dict(columns)).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        self._file = path.open("wb")
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")

    def __enter__(self) -> _ParquetFile:
        return self

    def __exit__(self, *error: object) -> None:
        with self._file:
            self._writer.close()

    def write(self, rows: pl.DataFrame) -> None:
        self._writer.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(self._schema))


class _TextFile:
    def __init__(self, path: Path, encoder: Encoder) -> None:
        self._encoder = encoder
        self._file = path.open("wb")
        self._file.write(encoder.file_header())

    def __enter__(self) -> _TextFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, rows: pl.DataFrame) -> None:
        lines = pl.Series(self._encoder.encode(rows)).cast(pl.String)
        self._file.write(("\n".join(lines.to_list()) + "\n").encode())


def _discard(part: Path) -> None:
    with suppress(OSError):
        part.unlink(missing_ok=True)
