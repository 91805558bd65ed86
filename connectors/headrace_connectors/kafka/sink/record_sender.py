"""Turns sink batches into records and sends them to a producer: key, tombstones, headers, timestamp; partition, linger.

Rows whose records Kafka refuses for themselves are refused here (`refusals`, `SinkContext`).

Outlives producers: a transactional writer opens one per transaction, and the topic keeps its partitions.

`KafkaRowCheck` finds rows that a sink cannot write before they are sent: those without a record
(`refusals.UnwritableRows`), and those whose record exceeds the client's limit (`message.max.bytes`). Lengths of texts,
bytes and lists bound the size of a record; only rows above the limit by that bound are encoded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from headrace.connect.row_check import Encode, Refused, first_of
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import HEADERS, OP, TS
from headrace.core.errors import ExternalError
from headrace.core.types import DataType, ListOf, Primitive, Struct
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.keys import KeyEncoder, key_encoder
from headrace_connectors.kafka.sink.records import RecordQueue, Records
from headrace_connectors.kafka.sink.refusals import (
    OVERHEAD_BYTES,
    UnwritableRows,
    bytes_max,
    open_refused_records,
    too_large,
)

SPREAD_ROWS = 4_000
"""Rows without a key go to one partition in runs of at most this length: full batches, even partitions."""
LOW_RATE_S = 0.003
"""Batches further apart than this are sent at once: at that rate lingering costs latency and saves nothing."""
PARTITIONS_AGE_S = 300.0
"""The number of partitions is queried again after this time."""
_LINGER_SETTINGS = frozenset({"linger.ms", "queue.buffering.max.ms"})
Header = tuple[str, bytes | None]


class RecordSender:
    """The records of one writer's topic. `records` needs no producer, so a row check can measure records with it.

    transactional   readers see the rows only after a checkpoint commits them, so the sender always lingers
    """

    def __init__(self, config: KafkaSinkSettings, context: SinkContext, *, transactional: bool = False) -> None:
        self._config, self._node = config, context.node
        self._key: KeyEncoder | None = None
        if config.key:
            self._key = key_encoder(config.key, context.schema, context.encode_keys)
        # a linger time in the pipeline is the user's own choice between latency and load
        self._hurries = not transactional and _LINGER_SETTINGS.isdisjoint(config.properties)
        self._sent_at = 0.0
        self._partitions = 0
        self._partitions_due = 0.0
        # subtasks begin at different partitions, so that a few rows do not all go to the same one
        self._turn = context.subtask

    def records(self, batch: SinkBatch) -> Records:
        """One record per row, in order. Of rows that `refusals.UnwritableRows` accepts."""
        assert batch.messages is not None, "a Kafka sink needs encoded messages"
        rows, config = batch.rows, self._config
        values = batch.messages
        if OP in rows.columns:
            values = _tombstones(values, rows.get_column(OP))
        keys = self._keys(rows)
        stamps: list[int] | None = None
        if config.timestamp == "event" and TS in rows.columns:
            # only a tombstone may have none: 0 is the time of writing
            stamps = rows.get_column(TS).fill_null(0).to_list()
        headers = header_columns(rows, config.headers) if config.headers else None
        if headers is not None and HEADERS in rows.columns:
            # those of the record itself come first, so that a reader can distinguish them from ours
            headers = [
                [*own, *ours] for own, ours in zip(record_headers(rows.get_column(HEADERS)), headers, strict=True)
            ]
        return Records(_large_binary(values), keys, stamps, headers)

    def _keys(self, rows: pl.DataFrame) -> pa.Array | None:
        return None if self._key is None else self._key(rows).to_arrow()

    def send(self, queue: RecordQueue, records: Records) -> None:
        """Queues the records; blocks while the bounded queue is full."""
        self._refresh_partitions(queue, are_needed=records.keys is None)
        if records.keys is not None:
            queue.send_by_key(records, self._partitions)
        else:
            self._spread(queue, records)
        now = time.monotonic()
        if self._hurries and now - self._sent_at >= LOW_RATE_S:
            queue.hurry()
            now = time.monotonic()
        self._sent_at = now

    def _spread(self, queue: RecordQueue, records: Records) -> None:
        for begin in range(0, len(records), SPREAD_ROWS):
            self._turn = (self._turn + 1) % self._partitions
            queue.send(records.slice(begin, SPREAD_ROWS), self._turn)

    def _refresh_partitions(self, queue: RecordQueue, *, are_needed: bool) -> None:
        """Queries the number of partitions, which may have grown. Without an answer the last known number stays."""
        now = time.monotonic()
        if now < self._partitions_due:
            return
        self._partitions_due = now + PARTITIONS_AGE_S
        try:
            self._partitions = queue.partitions()
        except ExternalError as error:
            if are_needed and not self._partitions:
                raise
            LOG.info("%s keeps %d partitions: %s", self._node, self._partitions, error)


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
        # text is bytes already: the same buffers with another type
        return pa.Array.from_buffers(pa.large_binary(), len(values), values.buffers(), offset=values.offset)
    return values if pa.types.is_large_binary(values.type) else values.cast(pa.large_binary())


def header_columns(rows: pl.DataFrame, columns: Mapping[str, str]) -> list[list[Header]]:
    """One list of (name, value) per row; NULL is a header without a value."""
    named = [[(name, value) for value in _bytes(rows.get_column(column))] for name, column in columns.items()]
    return [list(row) for row in zip(*named, strict=True)]


def record_headers(column: pl.Series) -> list[list[Header]]:
    """The headers that records had, of a column of lists of name and value; none for NULL."""
    return [[(each["key"], each["value"]) for each in listed or ()] for listed in column.to_list()]


def _bytes(column: pl.Series) -> list[bytes | None]:
    if column.dtype in (pl.String, pl.Binary):
        return column.cast(pl.Binary).to_list()
    from headrace.formats.json.encode import encode_json_object

    texts = pl.from_arrow(encode_json_object(column.to_frame("value"), ["value"]))
    assert isinstance(texts, pl.Series)
    prefix = len('{"value":')
    bare = texts.str.slice(prefix).str.strip_suffix("}").str.strip_chars('"')
    return pl.select(pl.when(column.is_not_null()).then(bare)).to_series().cast(pl.Binary).to_list()


class AcceptedRecords:
    """Makes the records of one writer."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext, sender: RecordSender) -> None:
        self._context, self._sender = context, sender
        self._unwritable = UnwritableRows(config, context.schema)
        self._refused = open_refused_records(config)

    def of(self, batch: SinkBatch) -> Records | None:
        """The records of the accepted rows, in order; None if there are none."""
        refused = dict(self._unwritable.refused(batch.rows))
        records = self._records(batch, refused)
        if records is not None and (later := self._refused.refused(_without(batch, refused).rows, records)):
            numbers = [row for row in range(len(batch)) if row not in refused]
            refused |= {numbers[row]: refusal for row, refusal in later.items()}
            records = self._records(batch, refused)
        # all at once: they leave in the order of the rows
        self._context.refuse_rows(batch.rows, refused)
        return records

    def _records(self, batch: SinkBatch, refused: Refused) -> Records | None:
        return self._sender.records(_without(batch, refused)) if len(refused) < len(batch) else None


def _without(batch: SinkBatch, refused: Refused) -> SinkBatch:
    if not refused:
        return batch
    kept = ~pl.int_range(len(batch), eager=True).is_in(list(refused))
    assert batch.messages is not None, "a Kafka sink needs encoded messages"
    return SinkBatch(batch.rows.filter(kept), batch.messages.filter(pa.array(kept.to_list())))


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
