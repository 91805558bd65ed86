"""Encodes rows as Avro messages of one schema: with the kernel, or row by row, which writes the same bytes.

Rows are written one by one if kernels are off, and if one of them does not fit the schema, which only the row writer
explains.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from headrace.core.types import Schema
from headrace.formats.avro.row_writer import RowWriter
from headrace.formats.avro.schema import AvroType
from headrace.formats.avro.write import writing
from headrace.formats.doubtful_rows import staging_type
from headrace.kernels.avro_encode import avro_encode_kernel


class AvroEncoder:
    """Writes rows of some columns as messages of one schema. Raises UserError for columns that do not fit it."""

    def __init__(self, columns: Schema, schema: AvroType, *, kernels: bool = True) -> None:
        self._names = list(columns.names)
        self._staging = {item.name: staging_type(item.type) for item in columns}
        program = writing(columns, schema)
        self._kernel = avro_encode_kernel(program) if kernels else None
        self._writer = RowWriter(program)

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`. Raises DataError for a row that does not fit the schema."""
        if rows.columns != self._names:
            rows = rows.select(self._names)
        if self._kernel is not None and (messages := self._kernel.encode(rows)) is not None:
            return messages
        staged = rows.select(
            pl.col(name) if rows.schema[name] == dtype else pl.col(name).cast(dtype)
            for name, dtype in self._staging.items()
        )
        return pa.array([self._writer.write(row) for row in staged.iter_rows(named=True)], pa.large_binary())

    def file_header(self) -> bytes:
        """Empty: messages stand alone."""
        return b""
