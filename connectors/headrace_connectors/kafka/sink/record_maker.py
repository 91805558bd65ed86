"""Turns sink batches into records: key, tombstones, headers, timestamp. Knows nothing of producers."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP, TS
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.headers import header_columns
from headrace_connectors.kafka.sink.keys import KeyEncoder, key_encoder, refuse_null_keys
from headrace_connectors.kafka.sink.records import Records


class RecordMaker:
    """Makes the records of one sink."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._config, self._node = config, context.node
        self._key: KeyEncoder | None = key_encoder(config.key, context.schema) if config.key else None

    def __call__(self, batch: SinkBatch) -> Records:
        """One record a row, in order. Raises DataError for a row without a key in upsert mode."""
        assert batch.messages is not None, "a Kafka sink takes encoded messages"
        rows, config = batch.rows, self._config
        values = batch.messages
        if OP in rows.columns:
            values = _tombstones(values, rows.get_column(OP))
        keys = None
        if self._key is not None:
            encoded = self._key(rows)
            if config.mode == "upsert":
                refuse_null_keys(encoded, rows, self._node)
            keys = encoded.to_arrow()
        stamps = (
            rows.get_column(TS).fill_null(0).to_list() if config.timestamp == "event" and TS in rows.columns else None
        )
        headers = header_columns(rows, config.headers) if config.headers else None
        return Records(_large_binary(values), keys, stamps, headers)


def _tombstones(values: pa.Array, deleted: pl.Series) -> pa.Array:
    if not deleted.any():
        return values
    series = pl.from_arrow(values)
    assert isinstance(series, pl.Series)
    kept = pl.select(pl.when(deleted.fill_null(value=False).not_()).then(series.cast(pl.Binary)).alias("value"))
    return kept.to_series().to_arrow()


def _large_binary(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_large_string(values.type) and values.null_count == 0:
        # text is bytes already: the same buffers under another name
        return pa.Array.from_buffers(pa.large_binary(), len(values), values.buffers(), offset=values.offset)
    return values if pa.types.is_large_binary(values.type) else values.cast(pa.large_binary())
