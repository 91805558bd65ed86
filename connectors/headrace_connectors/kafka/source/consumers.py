"""The two record fetchers: on confluent-kafka's own consumer, and on a native one."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int64, c_void_p
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.connect.source import SplitId
from headrace.core.errors import ExternalError
from headrace.kernels.kafka.take import MessageFunctions, TakeKernel, Taken, take_kernel
from headrace_connectors.kafka.clients.client import bad_settings
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.functions import COMMIT_CALLBACK, MESSAGE, TopicPartitionList
from headrace_connectors.kafka.librdkafka.native_client import NativeClient
from headrace_connectors.kafka.source.fetched import NOTHING, Columns, Fetched, FetchEvent, FetchWish
from headrace_connectors.kafka.source.runs import Piece, bounds_of, pieces

_error_of: Callable[[Message], KafkaError | None] = Message.error
_value_of: Callable[[Message], bytes | None] = Message.value
_key_of: Callable[[Message], bytes | None] = Message.key
_timestamp_of: Callable[[Message], tuple[int, int]] = Message.timestamp
_headers_of = cast("Callable[[Message], list[tuple[str, bytes | None]] | None]", Message.headers)

_HEADERS = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))


class ClientConsumer:
    """On confluent-kafka's own consumer: one Python object per record; supports headers. See RecordFetcher. Raises
    UserError for invalid settings."""

    chunk_rows = 2_000
    """1,000 to 5,000 cost the same; fewer contend for locks, more miss the processor's caches."""

    def __init__(self, wish: FetchWish) -> None:
        self._wish = wish
        self._assigned: dict[SplitId, None] = {}
        try:
            self._consumer = Consumer(dict(wish.settings) | {"on_commit": self._on_commit})
        except KafkaException as cause:
            raise bad_settings(cause) from cause

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self._wish.committed(error or next((item.error for item in partitions if item.error is not None), None))

    def fetch(self, rows_max: int, wait_s: float) -> Fetched:
        """See RecordFetcher."""
        # the cycle collector tracks each message object: thousands at once would trigger it again and again
        collecting = gc.isenabled()
        gc.disable()
        try:
            messages = self._consumer.consume(rows_max, wait_s)
            return self._fetched(messages) if messages else NOTHING
        finally:
            if collecting:
                gc.enable()

    def _fetched(self, messages: list[Message]) -> Fetched:
        events: list[FetchEvent] = []
        if any(map(_error_of, messages)):
            events = [_event(error, message) for message in messages if (error := message.error()) is not None]
            messages = [message for message in messages if message.error() is None]
        if not messages:
            return Fetched(events=events)
        # records of an unassigned partition may still arrive
        return Fetched(pieces(messages, tuple(self._assigned)), self._columns(messages), events)

    def _columns(self, messages: list[Message]) -> Columns:
        wish = self._wish
        stamps = [stamp for _, stamp in map(_timestamp_of, messages)] if wish.wants_timestamps else None
        return Columns(
            values=_binary(list(map(_value_of, messages))),
            keys=_binary(list(map(_key_of, messages))) if wish.wants_keys else None,
            timestamps=None if stamps is None else np.array(stamps, dtype=np.int64),
            headers=_headers(list(map(_headers_of, messages))) if wish.wants_headers else None,
        )

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        self._assigned |= dict.fromkeys(positions)
        self._consumer.incremental_assign([TopicPartition(*split, at) for split, at in positions.items()])

    def unassign(self, split: SplitId) -> None:
        """See RecordFetcher."""
        self._consumer.incremental_unassign([TopicPartition(*split)])

    def pause(self, splits: Sequence[SplitId]) -> None:
        """See RecordFetcher."""
        self._consumer.pause([TopicPartition(*split) for split in splits])

    def resume(self, splits: Sequence[SplitId]) -> None:
        """See RecordFetcher."""
        self._consumer.resume([TopicPartition(*split) for split in splits])

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        offsets = [TopicPartition(*split, at) for split, at in positions.items()]
        self._consumer.commit(offsets=offsets, asynchronous=True)

    def log_bounds(self, split: SplitId, timeout_s: float) -> tuple[int, int]:
        """See RecordFetcher."""
        bounds = self._consumer.get_watermark_offsets(TopicPartition(*split), timeout=timeout_s)
        if bounds is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(bounds[0]), int(bounds[1])

    def known_end(self, split: SplitId) -> int | None:
        """See RecordFetcher."""
        bounds = self._consumer.get_watermark_offsets(TopicPartition(*split), cached=True)
        return None if bounds is None or bounds[1] < 0 else int(bounds[1])

    def topic_error(self, topic: str, timeout_s: float) -> KafkaError | None:
        """See RecordFetcher."""
        found: KafkaError | None = self._consumer.list_topics(topic, timeout=timeout_s).topics[topic].error
        return found

    def close(self) -> None:
        """See RecordFetcher."""
        self._consumer.close()


def _event(error: KafkaError, message: Message) -> FetchEvent:
    topic, partition = message.topic(), message.partition()
    split = SplitId(topic, partition) if topic is not None and partition is not None else None
    return FetchEvent(error, split, message.offset())


def _binary(values: list[bytes | None]) -> pa.Array:
    # polars builds it fastest, and exports the newest form (binary_view) without a copy
    return pl.Series(values, dtype=pl.Binary).to_arrow(compat_level=pl.CompatLevel.newest())


def _headers(rows: list[list[tuple[str, bytes | None]] | None]) -> pl.Series:
    named = [[{"key": key, "value": value} for key, value in row] if row else [] for row in rows]
    return pl.Series("headers", named, dtype=_HEADERS)


# ---- the native consumer ---------------------------------------------------------------------------------------------


Addresses = npt.NDArray[np.uint64]


def take_of(library: ctypes.CDLL, wish: FetchWish) -> TakeKernel | None:
    """The kernel that copies the requested columns; None where kernels are off or missing."""

    def address(name: str, *, wanted: bool = True) -> int:
        return (ctypes.cast(library[name], c_void_p).value or 0) if wanted else 0

    functions = MessageFunctions(
        release=address("rd_kafka_message_destroy"),
        timestamp=address("rd_kafka_message_timestamp", wanted=wish.wants_timestamps),
        headers=address("rd_kafka_message_headers", wanted=wish.wants_headers),
        header=address("rd_kafka_header_get_all", wanted=wish.wants_headers),
    )
    return take_kernel(functions, wants_keys=wish.wants_keys)


class NativeConsumer:
    """On librdkafka's batch call: a kernel copies records to columns, without Python objects per record.

    Every message is released before a fetch returns: nothing refers to the library's memory afterwards, and no
    unreleased message can block the destruction of the client. See RecordFetcher. Raises UserError for invalid
    settings.
    """

    chunk_rows = 4_096
    """Most messages per call. Fewer waste the fixed cost of a call; the structs of many more no longer fit into the
    processor's caches until they are copied."""

    def __init__(self, library: ctypes.CDLL, wish: FetchWish, take: TakeKernel) -> None:
        self._lib, self._wish, self._take = library, wish, take
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
        code = library.rd_kafka_poll_set_consumer(self._handle)
        if code:
            # without a group there is no queue either
            library.rd_kafka_destroy(self._handle)
            raise bad_settings(KafkaException(KafkaError(code)))
        self._queue = library.rd_kafka_queue_get_consumer(self._handle)
        self._addresses: Addresses = np.zeros(0, np.uint64)
        self._topics: dict[int, str] = {}

    def _on_commit(self, _handle: int, code: int, offsets: int | None, _opaque: int) -> None:
        codes = [code]
        if offsets:
            listed = ctypes.cast(offsets, ctypes.POINTER(TopicPartitionList)).contents
            codes += [listed.items[index].err for index in range(listed.count)]
        self._wish.committed(next((KafkaError(each) for each in codes if each), None))

    def fetch(self, rows_max: int, wait_s: float) -> Fetched:
        """See RecordFetcher. Raises ExternalError for a header whose name is not UTF-8."""
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
            taken = self._take.take(addresses)
            # the kernel has released all messages without an error
            records = 0 if taken is None else len(taken.offsets)
            events = [self._event(address) for address in addresses[addresses != 0].tolist()] if records < count else []
        finally:
            self._take.release(addresses)
        if taken is None:
            return Fetched(events=events)
        headers = None if taken.headers is None else pl.Series("headers", pl.from_arrow(taken.headers))
        columns = Columns(taken.values, taken.keys, taken.timestamps, headers)
        return Fetched(self._pieces(taken), columns, events)

    def _pieces(self, taken: Taken) -> list[Piece]:
        changes = taken.partitions[1:] != taken.partitions[:-1]
        changes |= taken.topics[1:] != taken.topics[:-1]
        return [
            Piece(self._split(taken, begin), begin, end, taken.offsets[begin:end]) for begin, end in bounds_of(changes)
        ]

    def _split(self, taken: Taken, index: int) -> SplitId:
        return SplitId(self._topics[int(taken.topics[index])], int(taken.partitions[index]))

    def _event(self, address: int) -> FetchEvent:
        """The error of a message as an event; called before the message is released."""
        (message,) = np.frombuffer(ctypes.string_at(address, MESSAGE.itemsize), MESSAGE)
        text = self._lib.rd_kafka_message_errstr(address) or b""
        error = KafkaError(int(message["err"]), text.decode("utf-8", "replace"))
        if not message["topic"]:
            return FetchEvent(error)
        topic = self._lib.rd_kafka_topic_name(int(message["topic"])).decode()
        return FetchEvent(error, SplitId(topic, int(message["partition"])), int(message["offset"]))

    def _hold(self, topic: str) -> None:
        """Keeps a handle of the topic open: records refer to their topic by its address, even while they are
        released."""
        if topic in self._topics.values():
            return
        handle = self._lib.rd_kafka_topic_new(self._handle, topic.encode(), None)
        if not handle:
            raise ExternalError(f"librdkafka cannot open a handle for topic {topic!r}")
        self._topics[handle] = topic

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        for topic in {split.topic for split in positions}:
            self._hold(topic)
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
        """Partitions with offsets as the library's own struct; the library copies the fields that it keeps."""
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
            raise ExternalError(f"librdkafka cannot open a handle for topic {topic!r}")
        try:
            return self._client.described(handle, timeout_s)[0]
        finally:
            self._lib.rd_kafka_topic_destroy(handle)

    def close(self) -> None:
        """See RecordFetcher."""
        self._lib.rd_kafka_consumer_close(self._handle)
        for handle in self._topics:
            self._lib.rd_kafka_topic_destroy(handle)
        # the queue references the client: if it were not destroyed first, rd_kafka_destroy would wait for it
        self._lib.rd_kafka_queue_destroy(self._queue)
        self._lib.rd_kafka_destroy(self._handle)
