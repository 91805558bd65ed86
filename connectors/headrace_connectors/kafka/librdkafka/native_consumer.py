"""The record fetcher on librdkafka's batch call: no Python object for a record. Takes no headers.

Every message is released before a fetch returns, so that nothing refers to the library's memory and nothing is left
that could hold up its end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int64

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from headrace.connect.source import SplitId
from headrace.core.errors import ExternalError
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.functions import COMMIT_CALLBACK, TopicPartitionList
from headrace_connectors.kafka.librdkafka.message_calls import MessageCalls
from headrace_connectors.kafka.librdkafka.native_client import NativeClient
from headrace_connectors.kafka.librdkafka.native_messages import Addresses, MessageMemory, Structs
from headrace_connectors.kafka.source.fetched import NOTHING, Columns, Fetched, FetchEvent, FetchWish
from headrace_connectors.kafka.source.runs import Piece, bounds_of


class NativeConsumer:
    """See RecordFetcher. Raises UserError for settings that are not valid."""

    chunk_rows = 8_192
    """A call has its cost in numpy; many more messages have left the processor's caches before they are released."""

    def __init__(self, library: ctypes.CDLL, wish: FetchWish) -> None:
        assert not wish.wants_headers, "headers need an object for each record"
        self._lib, self._wish = library, wish
        self._calls = MessageCalls(library)
        # kept here: the library holds a bare pointer to it
        self._on_commit_pointer = COMMIT_CALLBACK(self._on_commit)
        self._client = NativeClient(
            library,
            librdkafka.CONSUMER,
            wish.settings,
            wish.watch,
            callbacks={"rd_kafka_conf_set_offset_commit_cb": self._on_commit_pointer},
        )
        self._handle = self._client.handle
        # one queue for records, errors, log lines and answers to commits
        library.rd_kafka_poll_set_consumer(self._handle)
        self._queue = library.rd_kafka_queue_get_consumer(self._handle)
        self._addresses: Addresses = np.zeros(0, np.uint64)

    def _on_commit(self, _handle: int, code: int, offsets: int | None, _opaque: int) -> None:
        codes = [code]
        if offsets:
            listed = ctypes.cast(offsets, ctypes.POINTER(TopicPartitionList)).contents
            codes += [listed.items[index].err for index in range(listed.count)]
        self._wish.committed(next((KafkaError(each) for each in codes if each), None))

    def fetch(self, rows_max: int, wait_s: float) -> Fetched:
        """See RecordFetcher."""
        if len(self._addresses) < rows_max:
            self._addresses = np.zeros(rows_max, np.uint64)
        place = self._addresses.ctypes.data
        count = self._lib.rd_kafka_consume_batch_queue(self._queue, int(wait_s * 1000), place, rows_max)
        if count < 0:
            raise KafkaException(KafkaError(self._lib.rd_kafka_last_error()))
        if not count:
            return NOTHING
        addresses = self._addresses[:count]
        try:
            return self._fetched(addresses)
        finally:
            self._calls.destroy(addresses)

    def _fetched(self, addresses: Addresses) -> Fetched:
        memory = MessageMemory(addresses)
        structs = memory.structs()
        events: list[FetchEvent] = []
        if structs.errors.any():
            events = [self._event(addresses, structs, index) for index in np.flatnonzero(structs.errors).tolist()]
            addresses = addresses[structs.errors == 0]
            if not len(addresses):
                return Fetched(events=events)
            memory = MessageMemory(addresses)
            structs = memory.structs()
        columns = Columns(
            memory.values(),
            memory.keys() if self._wish.wants_keys else None,
            self._calls.timestamps(addresses) if self._wish.wants_timestamps else None,
        )
        return Fetched(self._pieces(structs), columns, events)

    def _pieces(self, structs: Structs) -> list[Piece]:
        changes = structs.partitions[1:] != structs.partitions[:-1]
        changes |= structs.topics[1:] != structs.topics[:-1]
        return [
            Piece(self._split(structs, begin), begin, end, structs.offsets[begin:end])
            for begin, end in bounds_of(changes)
        ]

    def _split(self, structs: Structs, index: int) -> SplitId:
        topic = self._lib.rd_kafka_topic_name(int(structs.topics[index])).decode()
        return SplitId(topic, int(structs.partitions[index]))

    def _event(self, addresses: Addresses, structs: Structs, index: int) -> FetchEvent:
        text = self._lib.rd_kafka_message_errstr(int(addresses[index])) or b""
        error = KafkaError(int(structs.errors[index]), text.decode("utf-8", "replace"))
        if not structs.topics[index]:
            return FetchEvent(error)
        return FetchEvent(error, self._split(structs, index), int(structs.offsets[index]))

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        with self._listed(positions) as listed:
            error = self._client.outcome(self._lib.rd_kafka_incremental_assign(self._handle, listed))
        if error is not None:
            raise KafkaException(error)

    def unassign(self, split: SplitId) -> None:
        """See RecordFetcher."""
        with self._listed({split: 0}) as listed:
            error = self._client.outcome(self._lib.rd_kafka_incremental_unassign(self._handle, listed))
        if error is not None:
            raise KafkaException(error)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """See RecordFetcher."""
        self._for_each(self._lib.rd_kafka_pause_partitions, splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """See RecordFetcher."""
        self._for_each(self._lib.rd_kafka_resume_partitions, splits)

    def _for_each(self, call: Callable[..., int], splits: Sequence[SplitId]) -> None:
        with self._listed(dict.fromkeys(splits, 0)) as listed:
            codes = [call(self._handle, listed)]
            codes += [listed.contents.items[index].err for index in range(listed.contents.count)]
        if any(codes):
            raise KafkaException(next(KafkaError(code) for code in codes if code))

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        with self._listed(positions) as listed:
            code = self._lib.rd_kafka_commit(self._handle, listed, 1)
        if code:
            raise KafkaException(KafkaError(code))

    @contextmanager
    def _listed(self, positions: Mapping[SplitId, int]) -> Iterator[ctypes._Pointer[TopicPartitionList]]:
        """The library's own form of partitions with offsets; it copies what it keeps of it."""
        listed = self._lib.rd_kafka_topic_partition_list_new(len(positions))
        try:
            for split, at in positions.items():
                item = self._lib.rd_kafka_topic_partition_list_add(listed, split.topic.encode(), split.partition)
                item.contents.offset = at
            yield listed
        finally:
            self._lib.rd_kafka_topic_partition_list_destroy(listed)

    def log_bounds(self, split: SplitId, timeout_s: float) -> tuple[int, int]:
        """See RecordFetcher."""
        low, high = c_int64(), c_int64()
        place, ends = (split.topic.encode(), split.partition), (byref(low), byref(high))
        code = self._lib.rd_kafka_query_watermark_offsets(self._handle, *place, *ends, int(timeout_s * 1000))
        if code:
            raise KafkaException(KafkaError(code))
        return low.value, high.value

    def known_end(self, split: SplitId) -> int | None:
        """See RecordFetcher."""
        low, high = c_int64(), c_int64()
        place, ends = (split.topic.encode(), split.partition), (byref(low), byref(high))
        code = self._lib.rd_kafka_get_watermark_offsets(self._handle, *place, *ends)
        return None if code or high.value < 0 else high.value

    def topic_error(self, topic: str, timeout_s: float) -> KafkaError | None:
        """See RecordFetcher."""
        handle = self._lib.rd_kafka_topic_new(self._handle, topic.encode(), None)
        if not handle:
            raise ExternalError(f"librdkafka opens no handle for topic {topic!r}")
        try:
            return self._client.described(handle, timeout_s)[0]
        finally:
            self._lib.rd_kafka_topic_destroy(handle)

    def close(self) -> None:
        """See RecordFetcher."""
        self._lib.rd_kafka_consumer_close(self._handle)
        # the queue holds the client: it goes first, or the client's end would wait for it
        self._lib.rd_kafka_queue_destroy(self._queue)
        self._lib.rd_kafka_destroy(self._handle)
