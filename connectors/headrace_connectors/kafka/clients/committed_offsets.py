"""Reads the committed offsets of a consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.core.retry import Backoff, Retries
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch

_TRY_S = 2.0
_BACKOFF = Backoff(first_s=0.1, max_s=0.1)
_TRANSIENT = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""No answer yet, a moving coordinator, an offset whose transaction is about to end."""


class GroupConsumer(Protocol):
    """The part of `confluent_kafka.Consumer` that a read of committed offsets needs."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Asks the group's coordinator once. Raises KafkaException."""
        ...

    def poll(self, timeout: float) -> object:
        """Runs the client's callbacks."""
        ...


def committed_offsets(
    consumer: GroupConsumer,
    partitions: Sequence[TopicPartition],
    watch: ClientWatch,
    *,
    patience_s: float = CONNECT_TIMEOUT_S,
) -> list[TopicPartition]:
    """Returns the partitions with the offsets that the consumer's group has committed; a negative offset: none.

    Retries transient errors for `patience_s` seconds. Then, and for any other error, raises KafkaException, also if the
    error is that of a single partition: its offset is unknown, which is not the same as none. Raises ExternalError if
    the client can never connect.
    """
    if not partitions:
        return []
    retries = Retries(_BACKOFF, patience_s)
    while True:
        try:
            answer = consumer.committed(list(partitions), timeout=_TRY_S)
            error = next((each.error for each in answer if each.error is not None), None)
        except KafkaException as cause:
            error = cause.args[0]
        if error is None:
            return answer
        # runs the client's callbacks, which report permanent failures to the watch
        consumer.poll(0)
        watch.raise_if_hopeless()
        if not is_transient(error) or not retries.pause():
            raise KafkaException(error)


def is_transient(error: KafkaError) -> bool:
    """Whether a retry may succeed: the client does not report all of these errors as retriable."""
    return error.code() in _TRANSIENT or error.retriable()
