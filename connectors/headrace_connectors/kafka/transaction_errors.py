"""What a client says about transactions, as our errors with the remedy."""

from __future__ import annotations

from confluent_kafka import KafkaError

from headrace.core.errors import HeadraceError, UserError
from headrace_connectors.kafka.client import ClientWatch, translated
from headrace_connectors.kafka.transaction_names import PREFIX

ABORT_TIMEOUT_MS = 500
"""How long a producer that is closed tries to abort what it has open; what it cannot is left to be fenced."""


def init_outcome(error: KafkaError | None, brokers: str, watch: ClientWatch) -> HeadraceError | None:
    """What `TransactionalQueue.init_transactions` gives or raises for a client's answer."""
    if error is None:
        return None
    if error.code() == KafkaError._TIMED_OUT:
        return watch.unreachable()
    if error.retriable() and not error.fatal():
        return translated(error, brokers)
    raise init_refused(error, brokers)


def init_refused(error: KafkaError, brokers: str) -> HeadraceError:
    """The error for a producer that may not begin transactions."""
    match error.code():
        case KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return UserError(
                f"the brokers at {brokers} allow no transaction as long as transaction_timeout",
                remedy="lower the sink's transaction_timeout, or raise the brokers' transaction.max.timeout.ms",
            )
        case KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return UserError(
                f"Kafka at {brokers} denied the transaction: {error.str()}",
                remedy="delivery: exactly-once needs an ACL that allows this principal WRITE on the TransactionalIds "
                f"with prefix {PREFIX}-",
            )
        case KafkaError.UNSUPPORTED_VERSION | KafkaError._UNSUPPORTED_FEATURE:
            return UserError(
                f"the brokers at {brokers} know no transactions: {error.str()}",
                remedy="write delivery: at-least-once, or use brokers of Kafka 3.0 or later",
            )
    return translated(error, brokers)
