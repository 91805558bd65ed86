"""librdkafka's batch calls through ctypes and numpy, at least once: no Python object per message, and input is not
copied.

Message structs are gathered at their addresses; payloads become one Arrow column over librdkafka's own buffers, which
are released once parsed. Only librdkafka's public C interface is used (`headrace_connectors` declares it).
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from bare_steps.partition_runs import PartitionRun

from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.functions import MESSAGE
from peers.contenders.bare_client import CONSUMER, PRODUCER, QUEUED_MAX, SEND_ROWS, Polled
from peers.jobs import PARTITIONS

WAIT_MS, FLUSH_MS, SPAN_BITS, WORD_BYTES = 20, 60_000, 30, 8
VIEW = np.dtype([("length", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("offset", "<i4")])
"""One value of Arrow's string_view with more than 12 bytes. Arrow compares prefixes; a parser does not read them."""
Words = npt.NDArray[np.uint64]


class BatchClient:
    """schema: of the messages; batch_rows: of a poll."""

    def __init__(
        self, brokers: str, source: str, sink: str, schema: dict[str, pl.DataType], *, batch_rows: int
    ) -> None:
        library = librdkafka.loaded()
        if library is None:
            sys.exit("confluent-kafka's librdkafka does not load")
        self._library, self._source, self._row = library, source.encode(), pl.Struct(schema)
        self._consumer = self._client(librdkafka.CONSUMER, brokers, CONSUMER)
        self._producer = self._client(librdkafka.PRODUCER, brokers, PRODUCER)
        self._sink = library.rd_kafka_topic_new(self._producer, sink.encode(), None)
        # short calls that keep the interpreter's lock: to release it costs more than they do
        self._destroy = ctypes.PyDLL(library._name).rd_kafka_message_destroy
        self._destroy.restype, self._destroy.argtypes = None, (ctypes.c_void_p,)
        library.rd_kafka_poll_set_consumer(self._consumer)
        self._on_partitions("rd_kafka_incremental_assign", dict.fromkeys(range(PARTITIONS), 0))
        self._queue = library.rd_kafka_queue_get_consumer(self._consumer)
        self._addresses: Words = np.zeros(batch_rows, np.uint64)
        self._sent_batches = 0

    def _client(self, kind: int, brokers: str, settings: Mapping[str, str]) -> int:
        text = ctypes.create_string_buffer(librdkafka.ERROR_TEXT_BYTES)
        conf = self._library.rd_kafka_conf_new()
        for name, value in ({"bootstrap.servers": brokers} | dict(settings)).items():
            code = self._library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, len(text))
            assert code == librdkafka.CONF_OK, text.value
        handle: int | None = self._library.rd_kafka_new(kind, conf, text, len(text))
        assert handle is not None, text.value
        return handle

    def _on_partitions(self, function: str, offsets: Mapping[int, int], *rest: int) -> None:
        """Calls a function of the consumer with partitions of the source."""
        listed = self._library.rd_kafka_topic_partition_list_new(len(offsets))
        for partition, offset in offsets.items():
            self._library.rd_kafka_topic_partition_list_add(listed, self._source, partition)
            self._library.rd_kafka_topic_partition_list_set_offset(listed, self._source, partition, offset)
        # an attribute is the typed function; an item would be another one without types
        failed = getattr(self._library, function)(self._consumer, listed, *rest)
        self._library.rd_kafka_topic_partition_list_destroy(listed)
        assert not failed, function

    def poll(self) -> Polled | None:
        """Returns rows that own their memory: the messages are released."""
        count = self._library.rd_kafka_consume_batch_queue(
            self._queue, WAIT_MS, self._addresses.ctypes.data, len(self._addresses)
        )
        self._library.rd_kafka_poll(self._producer, 0)
        if count <= 0:
            return None
        addresses = self._addresses[:count]
        fields = _Fields(addresses)
        text = pl.Series(pl.from_arrow(_views(fields.column("payload"), fields.column("len"))))
        rows = text.str.json_decode(self._row).struct.unnest()
        runs = _runs(fields.column("partition").astype(np.int32), fields.column("offset").view(np.int64))
        assert not fields.column("err").astype(np.int32).any(), "a message is an error"
        del text
        deque(map(self._destroy, addresses.tolist()), maxlen=0)
        return Polled(rows, runs)

    def finish(self, partition: int) -> None:
        self._on_partitions("rd_kafka_pause_partitions", {partition: 0})

    def send(self, rows: pl.DataFrame) -> None:
        text = rows.select(pl.struct(pl.all()).struct.json_encode()).to_series().to_arrow()
        # structs point into this column: it lives until the last one is queued
        column = text.cast(pa.large_string())
        messages = _messages(column)
        for begin in range(0, len(messages), SEND_ROWS):
            while self._library.rd_kafka_outq_len(self._producer) > QUEUED_MAX:
                self._library.rd_kafka_poll(self._producer, 10)
            chunk, partition = messages[begin : begin + SEND_ROWS], self._sent_batches % PARTITIONS
            taken = self._library.rd_kafka_produce_batch(
                self._sink, partition, librdkafka.COPY_PAYLOAD, chunk.ctypes.data, len(chunk)
            )
            assert taken == len(chunk), "the producer's queue refused messages"
            self._sent_batches += 1

    def commit(self, positions: Mapping[int, int]) -> None:
        assert self._library.rd_kafka_flush(self._producer, FLUSH_MS) == 0, "results were not acknowledged"
        asynchronous = 1
        self._on_partitions("rd_kafka_commit", positions, asynchronous)

    def close(self) -> None:
        self._library.rd_kafka_queue_destroy(self._queue)
        self._library.rd_kafka_consumer_close(self._consumer)


class _Memory:
    """Memory by its address, for numpy: 64-bit words."""

    def __init__(self, address: int, words: int) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (words,), "typestr": "<u8", "version": 3}

    def array(self) -> Words:
        return np.asarray(self)


class _Fields:
    """Fields of message structs at `addresses`, gathered by numpy: one column for all messages."""

    def __init__(self, addresses: Words) -> None:
        low, high = int(addresses.min()), int(addresses.max())
        self._words = _Memory(low, (high - low + MESSAGE.itemsize) // WORD_BYTES).array()
        self._first = ((addresses - np.uint64(low)) // np.uint64(WORD_BYTES)).astype(np.int64)

    def column(self, name: str) -> Words:
        """Returns whole words: a 32-bit field is the lower half of its word."""
        fields = MESSAGE.fields
        assert fields is not None
        found: Words = self._words[self._first + fields[name][1] // WORD_BYTES]
        return found


def _views(payloads: Words, lengths: Words) -> pa.Array:
    """Returns values as Arrow without copying them: one buffer for each GiB of addresses that has values."""
    views: npt.NDArray[Any] = np.zeros(len(payloads), VIEW)
    views["length"] = lengths
    spans = payloads >> np.uint64(SPAN_BITS)
    buffers = []
    for number, span in enumerate(np.unique(spans)):
        within = spans == span
        starts = payloads[within]
        low, high = int(starts.min()), int((starts + lengths[within]).max())
        views["buffer"][within] = number
        views["offset"][within] = starts - np.uint64(low)
        buffers.append(pa.foreign_buffer(low, high - low))
    return pa.Array.from_buffers(pa.string_view(), len(views), [None, pa.py_buffer(views), *buffers])


def _runs(partitions: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]) -> list[PartitionRun]:
    """Returns runs of one partition; the topics here have no gaps."""
    begins = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist()]
    ends = [*begins[1:], len(partitions)]
    return [
        PartitionRun(int(partitions[begin]), begin, end - begin, int(offsets[begin]))
        for begin, end in zip(begins, ends, strict=True)
    ]


def _messages(column: pa.Array) -> npt.NDArray[Any]:
    """Returns message structs that point into an Arrow column of large strings."""
    assert column.offset == 0, "a column that was just made begins at its buffers"
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, len(column) + 1)
    messages: npt.NDArray[Any] = np.zeros(len(column), MESSAGE)
    messages["payload"] = offsets[:-1] + data.address
    messages["len"] = np.diff(offsets)
    return messages
