"""Rejects rows that a Kafka sink cannot write: those without a key in upsert mode or without a time for their
timestamp, and those whose record exceeds the client's limit (`message.max.bytes`).

Lengths of texts, bytes and lists bound the size of a record; only rows above the limit by that bound are encoded.
"""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import Encode
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import TS
from headrace.core.types import DataType, ListOf, Primitive, Struct
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.keys import refuse_null_keys
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.refusals import OVERHEAD_BYTES, bytes_max, require_event_times, require_small

_PLAIN_BYTES = 48
"""Longest text of a plain value: 38 digits with sign and point, a time in quotes."""
_PER_BYTE = 6
"""Longest encoding of a byte of text: an escape in JSON. Base64 needs less."""
_PER_NAME = 6
"""Quotes, colon and comma beside a name."""


class KafkaRowCheck:
    """`connect.row_check.RowCheck` for Kafka."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext, encode: Encode) -> None:
        self._config, self._node, self._encode = config, context.node, encode
        self._sender = RecordSender(config, context)
        self._limit = bytes_max(config) - OVERHEAD_BYTES
        used = (*context.schema.names, *(config.key or ()), *config.headers.values())
        parts = [_bytes_max(pl.col(name), context.schema.field(name).type) for name in used]
        names = sum(len(name.encode()) + _PER_NAME for name in (*used, *config.headers))
        self._bytes_max = sum((part for part in parts if isinstance(part, pl.Expr)), start=pl.lit(0, dtype=pl.Int64))
        self._fixed = names + sum(part for part in parts if isinstance(part, int))
        self._never_large = self._fixed <= self._limit and all(isinstance(part, int) for part in parts)

    def require(self, rows: pl.DataFrame) -> None:
        """See RowCheck."""
        key = self._config.key
        if self._config.mode == "upsert" and key is not None and len(key) == 1:
            # among several key columns NULL is a value
            refuse_null_keys(rows.get_column(key[0]), rows, self._node)
        if self._config.timestamp == "event" and TS in rows.columns:
            require_event_times(rows, self._node)
        if self._never_large:
            return
        doubtful = rows.filter(self._bytes_max.fill_null(0) + self._fixed > self._limit)
        if doubtful.height:
            self._require_small(doubtful)

    def _require_small(self, rows: pl.DataFrame) -> None:
        records = self._sender.records(SinkBatch(rows, self._encode(rows)))
        require_small(rows, records, self._limit + OVERHEAD_BYTES, self._node)


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
