"""How a producer's registration for transactions went, and how long its end may take."""

from __future__ import annotations

from confluent_kafka import KafkaError

from headrace.core.errors import HeadraceError, UserError
from headrace_connectors.kafka.clients.client import ClientWatch, translated

ABORT_TIMEOUT_MS = 500
"""How long a producer that is closed tries to abort what it has open; what it cannot is left to be fenced."""


def init_outcome(error: KafkaError | None, brokers: str, watch: ClientWatch) -> HeadraceError | None:
    """What `TransactionalQueue.init_transactions` gives or raises for a client's answer."""
    watch.raise_if_hopeless()
    if error is None:
        return None
    if error.code() == KafkaError._TIMED_OUT:
        return watch.unreachable()
    if error.code() in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        raise UserError(
            f"the brokers at {brokers} know no transactions: {error.str()}",
            remedy="write delivery: at-least-once, or use brokers of Kafka 3.0 or later",
        )
    if error.retriable() and not error.fatal():
        return translated(error, brokers)
    raise translated(error, brokers)
