"""Encodes rows as Protobuf messages of one type, row by row."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from headrace.core.types import Schema
from headrace.formats.doubtful_rows import staging_type
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.row_writer import RowWriter


class ProtobufEncoder:
    """Writes rows of some columns as messages of one type. Raises UserError for columns that do not fit it."""

    def __init__(self, columns: Schema, message: MessageType) -> None:
        self._staging = {item.name: staging_type(item.type) for item in columns}
        self._writer = RowWriter(columns, message)

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`. Raises DataError for a row that does not fit the message."""
        staged = rows.select(pl.col(name).cast(dtype) for name, dtype in self._staging.items())
        return pa.array([self._writer.write(row) for row in staged.iter_rows(named=True)], pa.large_binary())

    def file_header(self) -> bytes:
        """Empty: messages stand alone."""
        return b""
