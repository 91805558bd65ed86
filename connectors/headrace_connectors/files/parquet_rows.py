"""Rows of one Parquet file as columns of a schema, in parts of a row group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connect.row_check import failing_rows
from headrace.connect.source import RowBatch, Run, SplitId
from headrace.core.errors import UserError
from headrace.core.files.unpacked_file import packing_of
from headrace.core.types import Schema
from headrace.formats.parquet import fit_to_schema
from headrace_connectors.files.file_columns import remark_on_columns
from headrace_connectors.files.paths import position_of

BATCH_ROWS = 16_384
_Frame = tuple[pl.DataFrame, Mapping[int, str]]
"""Rows, and the reasons of those that cannot be read."""


class ParquetRows:
    """An open Parquet file, read from row `skip` on."""

    def __init__(self, path: Path, schema: Schema, *, skip: int = 0) -> None:
        self._path, self._schema = path, schema
        try:
            self._file = pq.ParquetFile(path)
        except pa.ArrowInvalid as cause:
            packing = packing_of(path)
            if packing is not None:
                raise UserError(
                    f"{path} is packed with {packing}", remedy="unpack it: Parquet files are compressed inside"
                ) from cause
            raise UserError(f"{path} is no Parquet file: {cause}") from cause
        self.next_line = min(skip, self._file.metadata.num_rows)
        there = self._file.schema_arrow.names
        self.remark = remark_on_columns(path, there, schema)
        """What users should know of this file, or None."""
        self._columns = [name for name in schema.names if name in there]
        self._batches = self._read_from(skip)
        self._rest = pl.DataFrame()
        self._bad: Mapping[int, str] = {}

    def _read_from(self, skip: int) -> Iterator[_Frame]:
        """Frames in row order; skips row groups before `skip`."""
        groups: list[int] = []
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if groups or skip < rows:
                groups.append(group)
            else:
                skip -= rows
        if not groups:
            return
        for batch in self._file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=self._columns):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            readable, bad = _readable(batch.slice(skip))
            skip = 0
            frame = pl.from_arrow(readable)
            assert isinstance(frame, pl.DataFrame)
            yield fit_to_schema(frame, self._schema, place=str(self._path)), bad

    def read(self, split: SplitId, file: int, rows_max: int) -> RowBatch | None:
        """The next rows; None at the end of the file."""
        if self._rest.is_empty():
            frame = next(self._batches, None)
            if frame is None:
                return None
            self._rest, self._bad = frame
        rows, self._rest = self._rest[:rows_max], self._rest[rows_max:]
        bad = {row: reason for row, reason in self._bad.items() if row < rows.height}
        self._bad = {row - rows.height: reason for row, reason in self._bad.items() if row >= rows.height}
        begin = position_of(file, self.next_line)
        self.next_line += rows.height
        positions = np.arange(begin, begin + rows.height, dtype=np.int64)
        return RowBatch(rows, positions, (Run(split, 0, rows.height),), bad=bad)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _readable(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """The rows of a batch, with NULL for values that hold a text which is not UTF-8, and why these rows are bad.

    Arrow reads such texts as they are, and polars trusts them.
    """
    columns: list[pa.Array] = []
    bad: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        wrong = _wrong_texts(plain) if _holds_text(plain.type) else ()
        if wrong:
            plain = plain.take(pa.array([None if row in wrong else row for row in range(len(plain))], pa.int64()))
            bad = dict.fromkeys(wrong, f'field "{name}": a text is not UTF-8') | bad
        columns.append(plain)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names), bad


def _wrong_texts(column: pa.Array) -> Collection[int]:
    """The rows of a column that hold a text which is not UTF-8."""

    def tried(begin: int, length: int) -> str | None:
        try:
            column.slice(begin, length).validate(full=True)
        except pa.ArrowInvalid as error:
            return str(error)
        return None

    return failing_rows(len(column), tried)


def _holds_text(dtype: pa.DataType) -> bool:
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return True
    return any(_holds_text(dtype.field(number).type) for number in range(dtype.num_fields))
