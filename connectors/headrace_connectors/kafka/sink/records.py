"""Columns of records that a Kafka writer passes to a producer, and the protocol of producers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError

from headrace.core.errors import DataError, ExternalError, HeadraceError, InternalError
from headrace_connectors.kafka.clients.client import UNKNOWN_TOPIC_CODES, translated

QUEUED_ROWS_MAX = 200_000
QUEUED_BYTES_MAX = 64 << 20
"""Bounds of the records that wait for an acknowledgement; a full queue blocks the writer."""

LINGER_MS = 5
"""Time in ms for which a record waits for others, so that the batches of a partition fill at high rates."""
HURRY_MS = 1
"""Time in ms for which the writer waits at low rates, so that the client sends records that would linger."""

SETTINGS: dict[str, Any] = {
    "compression.type": "lz4",
    "batch.size": 262_144,
    # rows arrive in batches; at low rates the writer does not wait even for this (`RecordQueue.hurry`)
    "linger.ms": LINGER_MS,
    # a broker restart shorter than this is tolerated; after it a record counts as failed
    "message.timeout.ms": 300_000,
}
"""Defaults that a pipeline may override under `properties:`."""
HELD_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    # far above headrace's own bound: a rejection in the middle of a batch would reorder it
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2_147_483_647,
}


@dataclass(frozen=True, slots=True)
class Records:
    """n records of one topic.

    values      Arrow large_binary; NULL is a tombstone
    keys        Arrow large_binary, or None if no record has a key; NULL: the record has none
    timestamps  epoch ms, or None: the wall clock
    headers     one list of (name, value) per record, or None
    """

    values: pa.Array
    keys: pa.Array | None = None
    timestamps: list[int] | None = None
    headers: list[list[tuple[str, bytes | None]]] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of values, keys and headers."""
        size = int(self.values.nbytes) + (0 if self.keys is None else int(self.keys.nbytes))
        headers = (header for listed in self.headers or () for header in listed)
        return size + sum(len(name) + len(value or b"") for name, value in headers)

    def slice(self, begin: int, length: int) -> Records:
        """Rows [begin, begin + length)."""
        end = begin + length
        return Records(
            self.values.slice(begin, length),
            None if self.keys is None else self.keys.slice(begin, length),
            None if self.timestamps is None else self.timestamps[begin:end],
            None if self.headers is None else self.headers[begin:end],
        )


class RecordQueue(Protocol):
    """A producer with its bounded queue; used by one thread."""

    def send(self, records: Records, partition: int) -> None:
        """Queues records in order, to one partition. Blocks while the queue is full.

        Raises ExternalError if a record has failed.
        """
        ...

    def send_by_key(self, records: Records, partitions: int) -> None:
        """Queues records with keys, each to its key's partition; those of one partition in order. Otherwise as `send`.

        partitions   how many the topic has; 0: unknown, the client asks for itself
        """
        ...

    def hurry(self) -> None:
        """Sends the queue now instead of lingering, within `HURRY_MS`."""
        ...

    def flush(self) -> None:
        """Waits until the broker has acknowledged every record. Raises ExternalError if one failed."""
        ...

    def partitions(self) -> int:
        """The current number of partitions of the topic. Raises ExternalError if no broker answers."""
        ...

    def close(self) -> None:
        """Discards the queue. Idempotent."""
        ...


class TransactionalQueue(RecordQueue, Protocol):
    """A producer for one transaction. `flush` also raises if the transaction can no longer be committed. `close` aborts
    an open transaction if the brokers answer soon; otherwise the transaction stays open until it is fenced."""

    def init_transactions(self, timeout_s: float) -> HeadraceError | None:
        """Registers its transactional id with the brokers, which ends the open transaction of an earlier producer of
        that id.

        Returns None when that is done, or the error of a try that may be repeated. Raises errors that a repetition does
        not resolve.
        """
        ...

    def begin_transaction(self) -> None:
        """Begins the transaction; called before the first record."""
        ...

    def drop(self) -> None:
        """Leaves the transaction prepared: sends nothing, aborts nothing. Only after `flush`."""
        ...


def rows_allowed(records: Records) -> int:
    """Most rows of the size of these records that may be queued at once."""
    mean = max(records.nbytes // max(len(records), 1), 1)
    return max(min(QUEUED_ROWS_MAX, QUEUED_BYTES_MAX // mean), 1)


def undelivered(topic: str) -> InternalError:
    """The error of a `drop` before every record was delivered: a commit of that transaction would lose the others."""
    return InternalError(
        f"a transaction for topic {topic!r} was to be prepared before its records were delivered",
        remedy="nothing of it is committed; please report this",
    )


_SIZE_CODES = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)
_REFUSAL_REMEDIES = {
    **dict.fromkeys(
        _SIZE_CODES,
        "raise the topic's max.message.bytes and `properties: {message.max.bytes: ..}`, or write less per row; if no "
        "row is that large, write `properties: {batch.size: ..}` below the topic's max.message.bytes",
    ),
    KafkaError.INVALID_TIMESTAMP: "the topic's message.timestamp.after.max.ms and message.timestamp.before.max.ms "
    "bound how far a record's time is from now: filter rows with such times out, raise the bounds, or write "
    "`timestamp: wall`",
    KafkaError.INVALID_RECORD: "in a topic with cleanup.policy=compact every record needs a key: set `key:` to columns "
    "without NULLs; otherwise correct what the topic's policy refuses",
    KafkaError._INVALID_DIFFERENT_RECORD: "the broker refused another record of the same batch: filter rows without a "
    "key out if the topic is compacted, or rows with times that are far from now",
    KafkaError.POLICY_VIOLATION: "write rows that the broker's policy accepts, or change the policy",
}
"""By error code: refusals of a record for itself. The record is refused again with every try."""


def delivery_failed(error: KafkaError, topic: str, brokers: str) -> HeadraceError:
    """The error for records that the brokers did not accept. A refusal names no row: brokers refuse whole batches."""
    code = error.code()
    what = f"a record for topic {topic!r} was not delivered: {error.str()}"
    if (remedy := _REFUSAL_REMEDIES.get(code)) is not None:
        return DataError(what, remedy=remedy)
    if code == KafkaError._MSG_TIMED_OUT:
        remedy = f"no broker at {brokers} acknowledged it within message.timeout.ms; positions do not advance past it"
        return ExternalError(what, remedy=remedy, retry=True)
    if code in UNKNOWN_TOPIC_CODES:
        return ExternalError(what, remedy=f"the topic was deleted: create it with `headrace kafka create {topic}`")
    return translated(error, brokers)
