"""A format written before formats had a context: each message is a text after a mark."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded, Decoder, Encoder, FormatConfig
from headrace.connect.registry import Format
from headrace.connect.row_check import Refusal, Refused, RowCheck
from headrace.core.types import Schema


class MarkedFormat(FormatConfig):
    """`mark` stands before each text."""

    mark: str = ">"

    def check_source(self, schema: Schema) -> list[str]:
        return [] if len(schema) == 1 else ["marked takes one column"]

    def check_sink(self, schema: Schema) -> list[str]:
        return self.check_source(schema)

    def open_decoder(self, schema: Schema) -> Decoder:  # type: ignore[override]
        return MarkedDecoder(schema, self.mark)

    def open_encoder(self, schema: Schema) -> Encoder:  # type: ignore[override]
        return MarkedEncoder(schema, self.mark)

    def open_check(self, schema: Schema, node: str) -> RowCheck | None:  # type: ignore[override]
        return MarkedCheck(schema.names[0], node)


class MarkedDecoder:
    def __init__(self, schema: Schema, mark: str) -> None:
        self._schema, self._mark = schema, mark

    def decode(self, values: pa.Array) -> Decoded:
        texts = pl.Series(self._schema.names[0], pl.from_arrow(values.cast(pa.large_string())))
        good = texts.str.starts_with(self._mark)
        bad = np.flatnonzero(~good.to_numpy())
        rows = texts.filter(good).str.strip_prefix(self._mark).to_frame()
        return Decoded(rows, np.flatnonzero(good.to_numpy()), bad, ("no mark",) * len(bad))


class MarkedEncoder:
    def __init__(self, schema: Schema, mark: str) -> None:
        self._name, self._mark = schema.names[0], mark

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        return (self._mark + rows[self._name]).to_arrow()

    def file_header(self) -> bytes:
        return b""


class MarkedCheck:
    """Rejects empty texts."""

    def __init__(self, name: str, node: str) -> None:
        self._name, self._node = name, node

    def refused(self, rows: pl.DataFrame) -> Refused:
        empty = np.flatnonzero((rows[self._name] == "").to_numpy())
        return {int(row): Refusal(f"{self._node} writes no empty text", "filter them out") for row in empty}


FORMAT = Format("marked", "a text after a mark", MarkedFormat)
