"""Answers of Kafka's admin client: taken, passed on as errors, and no longer waited for once they are lost."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.core.errors import UnreachableError
from headrace_connectors.kafka.clients import client
from headrace_connectors.kafka.clients.client import ClientWatch, answered


def test_an_answer_is_what_was_asked_for() -> None:
    future: Future[int] = Future()
    future.set_result(7)
    assert answered(future, ClientWatch("a:1")) == 7


def test_an_error_is_the_clients() -> None:
    future: Future[int] = Future()
    future.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
    with pytest.raises(KafkaException):
        answered(future, ClientWatch("a:1"))


def test_an_answer_that_is_lost_is_brokers_that_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LOST_ANSWER_S", 0.01)
    watch = ClientWatch("a:1")
    watch.on_error(KafkaError(KafkaError._TRANSPORT, "refused"))
    with pytest.raises(UnreachableError, match="no Kafka broker answers at a:1: refused"):
        answered(Future[int](), watch)
