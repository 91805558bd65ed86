"""Writes and reads single records of a Kafka topic, for a user at a terminal.

Not a data path: one Python object per record is acceptable, and simple matters more than fast. Everything is bounded:
the records to send by the client's queue, the records read at once by a small batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.local.topics.topics import AWAY, client_settings, offset_ranges, offsets_at, partitions_of, translated

_BATCH = 500
_POLL_SECONDS = 0.1
_SILENT_SECONDS = 15.0
_OPEN_SECONDS = 1.0
"""Time to wait for the end of a transaction: after a commit its marker is written a moment later."""
_DELIVER_MS = 30_000


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """One record; `timestamp` in ms since 1970, None if the topic keeps none."""

    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def produce(
    brokers: str, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], *, partition: int | None = None
) -> int:
    """Writes (key, value) pairs in order. Returns their number, once the brokers have acknowledged them all.

    Without `partition` a record goes to the partition that Java's client would choose for its key. Raises UserError for
    an unknown topic or partition, ExternalError if a record could not be delivered. A UserError of `records` is raised
    again with the number of records that were written before it.
    """
    numbers = partitions_of(brokers, topic)
    if partition is not None and partition not in numbers:
        raise UserError(f"topic {topic!r} has the partitions 0 to {numbers[-1]}, not {partition}")
    failed: list[KafkaError] = []
    producer = Producer(
        {
            **client_settings(brokers),
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.timeout.ms": _DELIVER_MS,
            "linger.ms": 5,
            "delivery.report.only.error": True,
        }
    )

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None and not failed:
            failed.append(error)

    count = 0
    broken: UserError | None = None
    try:
        for key, value in records:
            _enqueue(producer, topic, key, value, -1 if partition is None else partition, delivered)
            count += 1
            if failed:
                break
    except UserError as error:
        broken = error
    finally:
        # also when `records` raises: the records before the bad one are written
        left = producer.flush(2 * _DELIVER_MS / 1000)
    if failed:
        raise translated(KafkaException(failed[0]), brokers, "a record was not delivered") from None
    if left:
        raise ExternalError(f"{left} records were not delivered", retry=True)
    if broken is not None:
        before = (
            f"the {count} records before it are" if count > 1 else "the record before it is" if count else "nothing is"
        )
        raise UserError(f"{broken.message}; {before} written", remedy=broken.remedy) from broken
    return count


def consume(
    brokers: str,
    topic: str,
    *,
    start: str | int = "earliest",
    limit: int | None = None,
    follow: bool = False,
    on_open: Callable[[int, int], None] | None = None,
) -> Iterator[ConsumedRecord]:
    """Returns records of a topic from `start` (earliest, latest, a time, or an offset for every partition), at most
    `limit`. A time is ISO 8601, UTC unless it has an offset: the first record of each partition at or after it.

    Without `follow` it ends at the partitions' end offsets at the time of the call; with it, never. It returns only
    committed records: `on_open` receives partition and offset of an open transaction where reading stopped earlier.
    Records of one partition are in order. Raises UserError for an unknown topic.
    """
    ranges = offset_ranges(brokers, topic)
    starts = _starts(brokers, topic, start, ranges)
    ends = {number: end for number, (_, end) in ranges.items()}
    wanted = {number: at for number, at in starts.items() if follow or at < ends[number]}
    if not wanted or limit == 0:
        return
    consumer = Consumer(
        {
            **client_settings(brokers),
            "group.id": "headrace-cli",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.queue.backoff.ms": 10,
            # a fetch that returns no records within this time reports the partition's end
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, at) for number, at in wanted.items()])
        bounds = None if follow else _Ends({number: ends[number] for number in wanted}, on_open)
        yield from islice(_records(consumer, brokers, bounds), limit)
    finally:
        consumer.close()


def _enqueue(
    producer: Producer,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    partition: int,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    """Passes one record to the client; waits while its queue is full."""
    while True:
        try:
            producer.produce(topic, value=value, key=key, partition=partition, on_delivery=delivered)
        except BufferError:
            producer.poll(_POLL_SECONDS)
        else:
            producer.poll(0)
            return


class _Ends:
    """The end offset of each partition. Reading may end earlier, at a transaction that stays open."""

    def __init__(self, ends: dict[int, int], on_open: Callable[[int, int], None] | None) -> None:
        self._ends = ends
        self._on_open = on_open
        self._held: dict[int, tuple[int, float]] = {}

    def is_left(self) -> bool:
        """Whether there is more to read; gives up transactions that stay open."""
        now_s = time.monotonic()
        for partition, (offset, until_s) in list(self._held.items()):
            if now_s > until_s:
                self._drop(partition)
                if self._on_open is not None:
                    self._on_open(partition, offset)
        return bool(self._ends)

    def ended(self, partition: int, offset: int) -> None:
        """Nothing more can be read for now: `offset` is the next one."""
        if offset >= self._ends.get(partition, 0):
            self._drop(partition)
        else:
            self._held[partition] = offset, time.monotonic() + _OPEN_SECONDS

    def takes(self, partition: int, offset: int) -> bool:
        """A record arrived. Returns whether it is before the end."""
        end = self._ends.get(partition, 0)
        self._held.pop(partition, None)
        if offset + 1 >= end:
            self._drop(partition)
        return offset < end

    def _drop(self, partition: int) -> None:
        self._ends.pop(partition, None)
        self._held.pop(partition, None)


def _records(consumer: Consumer, brokers: str, ends: _Ends | None) -> Iterator[ConsumedRecord]:
    """Returns records until every partition is at its end: by offset, or by EOF if markers or compaction left gaps."""
    heard_at = time.monotonic()
    while ends is None or ends.is_left():
        messages = consumer.consume(_BATCH, _POLL_SECONDS)
        if messages:
            heard_at = time.monotonic()
        elif ends is not None and time.monotonic() - heard_at > _SILENT_SECONDS:
            raise UnreachableError(f"the brokers at {brokers} stopped answering")
        for message in messages:
            number, offset = _place(message)
            if _is_end(message, brokers, patient=ends is None):
                if ends is not None:
                    ends.ended(number, offset)
            elif message.error() is None and (ends is None or ends.takes(number, offset)):
                yield _record(message, number, offset)


def _is_end(message: Message, brokers: str, *, patient: bool) -> bool:
    """Whether a partition has no more records for now; raises for an error that is not worth waiting for.

    EOF comes before the end offset if a transaction is open there: its records are not readable yet.
    """
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if patient and error.code() in AWAY:
        return False
    raise translated(KafkaException(error), brokers, "the topic could not be read")


def _place(message: Message) -> tuple[int, int]:
    number, offset = message.partition(), message.offset()
    return (-1 if number is None else number), (-1 if offset is None else offset)


def _record(message: Message, partition: int, offset: int) -> ConsumedRecord:
    _, at = message.timestamp()
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return ConsumedRecord(
        partition=partition,
        offset=offset,
        timestamp=at if at >= 0 else None,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in pairs),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _starts(brokers: str, topic: str, start: str | int, ranges: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Partition -> the offset to start from."""
    at_ms = _time_ms(start) if isinstance(start, str) else None
    if at_ms is None:
        return {number: _start_offset(start, first, end) for number, (first, end) in ranges.items()}
    # a partition whose records are all earlier has no offset for the time: reading begins at its end
    found = offsets_at(brokers, topic, at_ms)
    return {number: found.get(number, end) for number, (_, end) in ranges.items()}


def _time_ms(text: str) -> int | None:
    """A time as epoch ms; None: it is none. Digits without a dash are an offset, not a day."""
    if "-" not in text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def _start_offset(start: str | int, first: int, end: int) -> int:
    """Returns the start offset in one partition; an offset out of range moves to the nearer end."""
    if start == "earliest":
        return first
    if start == "latest":
        return end
    if isinstance(start, int):
        return min(max(start, first), end)
    raise UserError(
        f"{start!r} is no place to start",
        remedy="one of: earliest, latest, a time such as 2026-11-01T12:00, or an offset such as 42",
    )
