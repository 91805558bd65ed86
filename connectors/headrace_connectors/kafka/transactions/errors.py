"""The registration of a transactional producer (InitProducerId): its outcome and its retries; the time limit of an
abort."""

from __future__ import annotations

from confluent_kafka import KafkaError

from headrace.core.errors import HeadraceError, UserError
from headrace.core.retry import Backoff
from headrace_connectors.kafka.clients.client import ClientWatch, translated

ABORT_TIMEOUT_MS = 500
"""Time limit of an abort on close, in ms; a transaction that could not be aborted stays open until it is fenced."""
REGISTRATION_BACKOFF = Backoff(first_s=0.5, max_s=0.5)
"""The client continues on its own in the pause. If it is called again while its request is in flight, it may send a
second request, which fences the producer of the first."""


def init_outcome(error: KafkaError | None, brokers: str, watch: ClientWatch) -> HeadraceError | None:
    """The outcome of `TransactionalQueue.init_transactions`. error: the client's; None: the producer is registered.

    Returns a transient error, after which the call may be repeated, or None. Raises permanent errors.
    """
    watch.raise_if_hopeless()
    if error is None:
        return None
    if error.code() == KafkaError._TIMED_OUT:
        return watch.unreachable()
    if error.code() in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        raise UserError(
            f"the brokers at {brokers} do not support transactions: {error.str()}",
            remedy="write delivery: at-least-once, or use brokers of Kafka 3.0 or later",
        )
    if error.retriable() and not error.fatal():
        return translated(error, brokers)
    raise translated(error, brokers)
