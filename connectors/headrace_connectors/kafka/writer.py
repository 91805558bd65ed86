"""Turns sink batches into records: key, tombstones, headers, timestamp, and which partition takes rows without a key.

Knows nothing of how a producer moves them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.core.batch import OP, TS
from headrace.core.errors import ExternalError
from headrace_connectors.kafka.client import LOG
from headrace_connectors.kafka.client_producer import ClientProducer
from headrace_connectors.kafka.config import KafkaSinkConfig
from headrace_connectors.kafka.headers import header_columns
from headrace_connectors.kafka.keys import KeyEncoder, key_encoder, refuse_null_keys
from headrace_connectors.kafka.librdkafka import library
from headrace_connectors.kafka.native_producer import NativeProducer
from headrace_connectors.kafka.records import ANY_PARTITION, RecordQueue, Records

SPREAD_ROWS = 4_000
"""Rows without a key go to one partition for as long as this, then to the next: full batches, even partitions."""
LOW_RATE_S = 0.003
"""Batches further apart than this are sent at once: at such a rate lingering costs latency and saves nothing."""
PARTITIONS_AGE_S = 300.0


class KafkaWriter:
    """Writes to one topic."""

    def __init__(self, config: KafkaSinkConfig, context: SinkContext) -> None:
        self._config, self._context = config, context
        self._queue = self._open_queue()
        self._key: KeyEncoder | None = key_encoder(config.key, context.schema) if config.key else None
        # whoever chooses how long to linger has chosen between latency and load
        self._hurries = not {"linger.ms", "queue.buffering.max.ms"} & set(config.properties)
        self._written_at = 0.0
        self._partitions = 0
        self._partitions_due = 0.0
        # subtasks begin at different partitions, so that few rows do not all meet in one
        self._turn = context.subtask

    def _open_queue(self) -> RecordQueue:
        config, found = self._config, library()
        if found is not None and not config.headers and config.timestamp == "wall":
            return NativeProducer(found, config.brokers, config.topic, config.properties)
        return ClientProducer(config.brokers, config.topic, config.properties)

    def write(self, batch: SinkBatch) -> None:
        """Queues rows; blocks while the bounded queue is full."""
        if not len(batch):
            return
        records = self._records(batch)
        if records.keys is not None:
            self._queue.send(records, ANY_PARTITION)
        else:
            self._spread(records)
        now = time.monotonic()
        if self._hurries and now - self._written_at >= LOW_RATE_S:
            self._queue.hurry()
            now = time.monotonic()
        self._written_at = now

    def _spread(self, records: Records) -> None:
        self._refresh_partitions()
        for begin in range(0, len(records), SPREAD_ROWS):
            self._turn = (self._turn + 1) % self._partitions
            self._queue.send(records.slice(begin, SPREAD_ROWS), self._turn)

    def _records(self, batch: SinkBatch) -> Records:
        assert batch.messages is not None, "a Kafka sink takes encoded messages"
        rows, config = batch.rows, self._config
        values = batch.messages
        if OP in rows.columns:
            values = _tombstones(values, rows.get_column(OP))
        keys = None
        if self._key is not None:
            encoded = self._key(rows)
            if config.mode == "upsert":
                refuse_null_keys(encoded, rows, self._context.node)
            keys = encoded.to_arrow()
        stamps = (
            rows.get_column(TS).fill_null(0).to_list() if config.timestamp == "event" and TS in rows.columns else None
        )
        headers = header_columns(rows, config.headers) if config.headers else None
        return Records(_large_binary(values), keys, stamps, headers)

    def _refresh_partitions(self) -> None:
        """Partitions may be added to a topic; a broker that is away for a moment changes nothing."""
        now = time.monotonic()
        if now < self._partitions_due:
            return
        self._partitions_due = now + PARTITIONS_AGE_S
        try:
            self._partitions = self._queue.partitions()
        except ExternalError as error:
            if not self._partitions:
                raise
            LOG.info("%s keeps %d partitions: %s", self._context.node, self._partitions, error)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every record is acknowledged; waits out a broker that restarts."""
        self._queue.flush()
        return ()

    def close(self) -> None:
        """Drops what was not flushed."""
        self._queue.close()


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
