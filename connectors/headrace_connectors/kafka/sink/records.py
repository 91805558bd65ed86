"""What a Kafka writer hands to a producer: columns of records, and the seam behind which the producer may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError

from headrace.core.errors import ExternalError, HeadraceError
from headrace_connectors.kafka.clients.client import UNKNOWN_TOPIC_CODES, translated

ANY_PARTITION = -1
"""The key decides the partition."""

QUEUED_ROWS_MAX = 200_000
QUEUED_BYTES_MAX = 64 << 20
"""Bounds of the records that wait for the broker's answer; a full queue holds the writer up."""

LINGER_MS = 5
"""How long a record may wait for others, so that the batches of a partition fill at high rates."""
HURRY_MS = 1
"""How long the writer waits at low rates for the client to wake and send what would linger otherwise."""

SETTINGS: dict[str, Any] = {
    "compression.type": "lz4",
    "batch.size": 262_144,
    # rows come as whole batches; at low rates the writer does not wait even for this (`RecordQueue.hurry`)
    "linger.ms": LINGER_MS,
    # a broker that restarts within this is ridden out; only then does a record count as failed
    "message.timeout.ms": 300_000,
}
"""What a pipeline may choose otherwise under `properties:`."""
HELD_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    # far above what headrace lets wait: a refusal in the middle of a batch would reorder it
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2_147_483_647,
}


@dataclass(frozen=True, slots=True)
class Records:
    """n records of one topic.

    values      Arrow large_binary; NULL is a tombstone
    keys        Arrow large_binary, or None where no record has a key; NULL: this one has none
    timestamps  epoch ms, or None: the wall clock
    headers     one list of (name, value) a record, or None
    """

    values: pa.Array
    keys: pa.Array | None = None
    timestamps: list[int] | None = None
    headers: list[list[tuple[str, bytes | None]]] | None = None

    def __len__(self) -> int:
        return len(self.values)

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
        """Queues records in order, to one partition or each to its key's. Blocks while the queue is full.

        Raises ExternalError when a record is known to have failed.
        """
        ...

    def hurry(self) -> None:
        """Sends what is queued now instead of waiting for more; takes up to `HURRY_MS`."""
        ...

    def flush(self) -> None:
        """Waits until the broker has acknowledged every record; ExternalError when one failed."""
        ...

    def partitions(self) -> int:
        """How many partitions the topic has now. ExternalError when no broker answers."""
        ...

    def close(self) -> None:
        """Drops what is still queued. Idempotent."""
        ...


class TransactionalQueue(RecordQueue, Protocol):
    """A producer that lives for one transaction. `flush` also raises where the transaction can no longer be committed.

    Its `close` gives up what is open: aborts it where the brokers answer soon, else leaves it to be fenced.
    """

    def init_transactions(self, timeout_s: float) -> HeadraceError | None:
        """Registers its name with the brokers, which ends what an earlier producer left open under it.

        Gives None when that is done; an error: it is not yet, and why; call it again. Raises what calling again does
        not heal.
        """
        ...

    def begin_transaction(self) -> None:
        """Before the first record."""
        ...

    def drop(self) -> None:
        """Leaves the transaction as it is, prepared: sends nothing, aborts nothing. Only after `flush`."""
        ...


def rows_allowed(rows: int, size: int) -> int:
    """How many rows like these may wait at once: `rows` of them have `size` bytes."""
    mean = max(size // max(rows, 1), 1)
    return max(min(QUEUED_ROWS_MAX, QUEUED_BYTES_MAX // mean), 1)


def delivery_failed(error: KafkaError, topic: str, brokers: str) -> HeadraceError:
    """The error for a record that the brokers did not take."""
    code = error.code()
    what = f"a record for topic {topic!r} was not delivered: {error.str()}"
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        remedy = "raise the topic's max.message.bytes and `properties: {message.max.bytes: ..}`, or write less per row"
        return ExternalError(what, remedy=remedy)
    if code == KafkaError._MSG_TIMED_OUT:
        remedy = f"no broker at {brokers} took it within message.timeout.ms; nothing was marked as done"
        return ExternalError(what, remedy=remedy, retry=True)
    if code == KafkaError.INVALID_RECORD:
        remedy = "in a topic with cleanup.policy=compact every record needs a key: give the sink `key:`, without NULLs"
        return ExternalError(what, remedy=remedy)
    if code in UNKNOWN_TOPIC_CODES:
        return ExternalError(what, remedy=f"the topic was deleted: create it with `headrace kafka create {topic}`")
    return translated(error, brokers)
