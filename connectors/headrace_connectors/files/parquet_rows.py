"""Rows of one Parquet file as columns of a schema, in parts of a row group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connect.source import RowBatch, Run, SplitId
from headrace.core.errors import UserError
from headrace.core.files.unpacked_file import packing_of
from headrace.core.types import Schema
from headrace.formats.parquet import fit_to_schema
from headrace_connectors.files.file_columns import remark_on_columns
from headrace_connectors.files.paths import position_of

BATCH_ROWS = 16_384


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

    def _read_from(self, skip: int) -> Iterator[pl.DataFrame]:
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
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            if skip >= frame.height:
                skip -= frame.height
                continue
            yield fit_to_schema(frame[skip:], self._schema, place=str(self._path))
            skip = 0

    def read(self, split: SplitId, file: int, rows_max: int) -> RowBatch | None:
        """The next rows; None at the end of the file."""
        if self._rest.is_empty():
            frame = next(self._batches, None)
            if frame is None:
                return None
            self._rest = frame
        rows, self._rest = self._rest[:rows_max], self._rest[rows_max:]
        begin = position_of(file, self.next_line)
        self.next_line += rows.height
        positions = np.arange(begin, begin + rows.height, dtype=np.int64)
        return RowBatch(rows, positions, (Run(split, 0, rows.height),))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
