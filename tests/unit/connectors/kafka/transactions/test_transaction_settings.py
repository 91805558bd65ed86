from __future__ import annotations

from typing import Any

import pytest

from headrace.connect.sink import CheckpointTerms, SinkContext
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.transactions.transaction_settings import message_timeout_ms, transaction_settings

DEFAULTS = CheckpointTerms(10_000, 600_000, True, 0, 60_000)


def sink(**fields: Any) -> KafkaSinkConfig:
    return KafkaSinkConfig.model_validate({"brokers": "b:1", "topic": "t", "delivery": "exactly-once"} | fields)


def context(terms: CheckpointTerms | None = None, **fields: Any) -> SinkContext:
    return SinkContext("job-1", "out", 1, 2, schema_of({"a": "int64"}), checkpoint=terms, **fields)


def test_the_defaults_work() -> None:
    assert sink().check(context(DEFAULTS)) == []
    assert sink().check(context()) == []
    assert sink().exactly_once
    assert sink().commit_within_ms == 900_000


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            CheckpointTerms(None, 600_000, True, 0, 60_000),
            "delivery: exactly-once makes rows visible when a checkpoint is committed, and there are no checkpoints\n"
            "  give checkpoint an interval, such as 10s, or write delivery: at-least-once",
        ),
        (
            CheckpointTerms(10_000, 600_000, False, 0, 60_000),
            "delivery: exactly-once needs aligned barriers, and checkpoint.mode is at-least-once\n"
            "  write checkpoint: {mode: exactly-once}, or delivery: at-least-once",
        ),
        (
            CheckpointTerms(10_000, 830_000, True, 0, 60_000),
            "a transaction may have to stay open for 15m (checkpoint.interval 10s + checkpoint.timeout 830s + "
            "the restart delay 1m), and the brokers would abort it after transaction_timeout 15m\n"
            "  lower checkpoint.timeout, or raise transaction_timeout above 15m (the brokers' "
            "transaction.max.timeout.ms, 15m by default, must allow it)",
        ),
        (
            CheckpointTerms(3_600_000, 600_000, True, 0, 0),
            "a transaction may have to stay open for 70m (checkpoint.interval 1h + checkpoint.timeout 10m + "
            "the restart delay 0s), and the brokers would abort it after transaction_timeout 15m\n"
            "  lower checkpoint.interval, or raise transaction_timeout above 70m (the brokers' "
            "transaction.max.timeout.ms, 15m by default, must allow it)",
        ),
    ],
)
def test_checkpoints_that_do_not_do(terms: CheckpointTerms, message: str) -> None:
    assert sink().check(context(terms)) == [message]
    assert sink(delivery="at-least-once").check(context(terms)) == []


def test_a_longer_transaction_makes_room() -> None:
    terms = CheckpointTerms(10_000, 830_000, True, 0, 60_000)
    assert sink(transaction_timeout="20m").check(context(terms)) == []


def test_names_of_a_writer() -> None:
    names = sink().transactions(context(CheckpointTerms(10_000, 1, True, 1, 1), attempt=65))
    assert names == tuple(f"headrace-job-1-out-1-1-{lane}" for lane in range(4))
    assert len(sink().transactions(context())) == 3
    plain = sink(delivery="at-least-once")
    assert (plain.transactions(context()), plain.commit_within_ms, plain.exactly_once) == ((), None, False)
    assert plain.open_committer(context()) is None


@pytest.mark.parametrize(
    ("properties", "timeout_ms", "message_ms", "socket_ms"),
    [
        ({}, 900_000, 300_000, 60_000),
        ({}, 30_000, 20_000, 30_000),
        ({"message.timeout.ms": "5000", "socket.timeout.ms": "4000"}, 900_000, 5_000, 4_000),
        ({"delivery.timeout.ms": "5000"}, 900_000, 5_000, 60_000),
        ({"message.timeout.ms": "0"}, 900_000, 600_000, 60_000),
        ({"message.timeout.ms": "900000", "socket.timeout.ms": "901000"}, 900_000, 600_000, 900_000),
        ({"message.timeout.ms": "soon", "socket.timeout.ms": "1s"}, 900_000, "soon", "1s"),
    ],
)
def test_time_limits_of_the_client(
    properties: dict[str, str], timeout_ms: int, message_ms: int | str, socket_ms: int | str
) -> None:
    rest, held = transaction_settings("n", timeout_ms, properties | {"linger.ms": "1"})
    assert rest == {"linger.ms": "1"}
    assert held == {
        "transactional.id": "n",
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": message_ms,
        "socket.timeout.ms": socket_ms,
    }
    assert message_timeout_ms(properties, timeout_ms) < timeout_ms
