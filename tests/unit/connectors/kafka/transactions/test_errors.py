from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace_connectors.kafka.clients.client import ClientWatch
from headrace_connectors.kafka.sink.records import delivery_failed
from headrace_connectors.kafka.transactions.errors import init_outcome

BROKERS = "b:1"


def outcome(code: int, *, fatal: bool = False, retriable: bool = False) -> HeadraceError | None:
    return init_outcome(KafkaError(code, "as the client says", fatal, retriable), BROKERS, ClientWatch(BROKERS))


def test_what_passes_is_given_back() -> None:
    assert init_outcome(None, BROKERS, ClientWatch(BROKERS)) is None
    assert isinstance(outcome(KafkaError._TIMED_OUT, retriable=True), UnreachableError)
    away = outcome(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, retriable=True)
    assert isinstance(away, ExternalError)
    assert away.retry


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            KafkaError.INVALID_TRANSACTION_TIMEOUT,
            "the brokers at b:1 allow no transaction as long as transaction_timeout\n"
            "  lower the sink's transaction_timeout, or raise the brokers' transaction.max.timeout.ms",
        ),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Kafka at b:1 denied the transaction: as the client says\n"
            "  delivery: exactly-once needs an ACL that allows this principal WRITE on the TransactionalIds with "
            "prefix headrace-",
        ),
        (
            KafkaError._UNSUPPORTED_FEATURE,
            "the brokers at b:1 do not support transactions: as the client says\n"
            "  write delivery: at-least-once, or use brokers of Kafka 3.0 or later",
        ),
    ],
)
def test_what_the_user_must_change(code: int, text: str) -> None:
    with pytest.raises(UserError) as raised:
        outcome(code, fatal=True)
    assert str(raised.value) == text


@pytest.mark.parametrize("code", [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH])
def test_a_writer_that_was_replaced_says_so(code: int) -> None:
    with pytest.raises(ExternalError, match="a newer attempt of this job has taken over") as raised:
        outcome(code, fatal=True)
    assert raised.value.retry
    assert str(delivery_failed(KafkaError(code, "as the client says"), "t", BROKERS)) == str(raised.value)


def test_what_the_client_reported_meanwhile_counts() -> None:
    watch = ClientWatch(BROKERS)
    watch.on_error(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT, "as the client says", True))
    with pytest.raises(UserError, match="lower the sink's transaction_timeout"):
        init_outcome(KafkaError(KafkaError._TIMED_OUT), BROKERS, watch)
