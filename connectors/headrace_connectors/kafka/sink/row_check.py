"""Finds rows that a Kafka sink cannot write: those without a record (`refusals.UnwritableRows`), and those whose record
exceeds the client's limit (`message.max.bytes`).

Lengths of texts, bytes and lists bound the size of a record; only rows above the limit by that bound are encoded.
"""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import Encode, Refused, first_of
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.types import DataType, ListOf, Primitive, Struct
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.refusals import OVERHEAD_BYTES, UnwritableRows, bytes_max, too_large

_PLAIN_BYTES = 48
"""Longest text of a plain value: 38 digits with sign and point, a time in quotes."""
_PER_BYTE = 6
"""Longest encoding of a byte of text: an escape in JSON. Base64 needs less."""
_PER_NAME = 6
"""Quotes, colon and comma beside a name."""


class KafkaRowCheck:
    """`connect.row_check.RowCheck` for Kafka."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext, encode: Encode) -> None:
        self._encode = encode
        self._unwritable = UnwritableRows(config, context.schema)
        self._sender = RecordSender(config, context)
        self._limit = bytes_max(config) - OVERHEAD_BYTES
        used = (*context.schema.names, *(config.key or ()), *config.headers.values())
        parts = [_bytes_max(pl.col(name), context.schema.field(name).type) for name in used]
        names = sum(len(name.encode()) + _PER_NAME for name in (*used, *config.headers))
        self._bytes_max = sum((part for part in parts if isinstance(part, pl.Expr)), start=pl.lit(0, dtype=pl.Int64))
        self._fixed = names + sum(part for part in parts if isinstance(part, int))
        self._never_large = self._fixed <= self._limit and all(isinstance(part, int) for part in parts)

    def refused(self, rows: pl.DataFrame) -> Refused:
        """See RowCheck."""
        found = self._unwritable.refused(rows)
        if self._never_large:
            return found
        doubtful = rows.select(self._bytes_max.fill_null(0) + self._fixed > self._limit).to_series()
        numbers = [row for row in doubtful.arg_true() if row not in found]
        return first_of((found, self._too_large(rows, numbers))) if numbers else found

    def _too_large(self, rows: pl.DataFrame, numbers: list[int]) -> Refused:
        doubtful = rows[numbers]
        records = self._sender.records(SinkBatch(doubtful, self._encode(doubtful)))
        large = too_large(doubtful, records, self._limit + OVERHEAD_BYTES)
        return {numbers[row]: refusal for row, refusal in large.items()}


def _bytes_max(value: pl.Expr, dtype: DataType) -> pl.Expr | int:
    """The most bytes that a format may need for a value: a constant, or an expression over the values."""
    match dtype:
        case Primitive.STRING:
            return value.str.len_bytes().cast(pl.Int64).fill_null(0) * _PER_BYTE + _PLAIN_BYTES
        case Primitive.BINARY:
            return value.bin.size().cast(pl.Int64).fill_null(0) * _PER_BYTE + _PLAIN_BYTES
        case ListOf(inner):
            inside = _bytes_max(pl.element(), inner)
            if isinstance(inside, int):
                return value.list.len().cast(pl.Int64).fill_null(0) * inside + _PLAIN_BYTES
            return value.list.eval(inside).list.sum().cast(pl.Int64).fill_null(0) + _PLAIN_BYTES
        case Struct(fields):
            parts = [_bytes_max(value.struct.field(field.name), field.type) for field in fields]
            fixed = _PLAIN_BYTES + sum(len(field.name.encode()) + _PER_NAME for field in fields)
            fixed += sum(part for part in parts if isinstance(part, int))
            measured = [part for part in parts if isinstance(part, pl.Expr)]
            return sum(measured, start=pl.lit(fixed, dtype=pl.Int64)) if measured else fixed
        case _:
            return _PLAIN_BYTES
