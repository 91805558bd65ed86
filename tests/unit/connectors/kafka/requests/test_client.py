"""Requests to several brokers at the same time, one of which fails: what one real broker cannot show.

With real ones: `integration/containers`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headrace.core.errors import ExternalError
from headrace_connectors.kafka.requests.client import NETWORK_EXCEPTION, BrokerClient, canonical_name
from headrace_connectors.kafka.requests.connection import ConnectionSettings
from headrace_connectors.kafka.requests.requests import Coordinator, EndCall
from headrace_connectors.kafka.requests.sasl import SaslMechanism
from support.kafka.scripted_brokers import END, NAMES, ScriptedBrokers
from support.processes.running import WAIT_SECONDS


@pytest.fixture
def cluster() -> Iterator[ScriptedBrokers]:
    running = ScriptedBrokers()
    yield running
    running.close()


@pytest.fixture
def client(cluster: ScriptedBrokers) -> Iterator[BrokerClient]:
    settings = ConnectionSettings()
    opened = BrokerClient(cluster.bootstrap, settings, answer_timeout_ms=int(WAIT_SECONDS * 1_000))
    yield opened
    opened.close()


def calls(name: str, count: int = 1) -> list[EndCall]:
    return [EndCall(f"{name}{number or ''}", 7, 0, committed=True) for number in range(count)]


def test_kerberos_wants_canonical_names() -> None:
    assert canonical_name("127.0.0.1") == socket.gethostbyaddr("127.0.0.1")[0]
    # one that has no other name keeps its own
    assert canonical_name("no such host") == "no such host"


def test_each_name_is_ended_at_its_broker(cluster: ScriptedBrokers, client: BrokerClient) -> None:
    assert client.find(NAMES) == {NAMES[0]: Coordinator(0, 1), NAMES[1]: Coordinator(0, 2)}
    asked = {1: calls(NAMES[0], 300), 2: calls(NAMES[1], 300)}
    assert set(client.end(asked).values()) == {0}
    # never in version 5, though the brokers know it: it raises the epoch
    for number in (1, 2):
        assert cluster.asked[number].count((END, 4)) == 300
    assert not client.broken


def test_a_broker_that_hangs_up_costs_only_its_own_answers(cluster: ScriptedBrokers, client: BrokerClient) -> None:
    cluster.silent.add(2)
    answers = client.end({1: calls(NAMES[0], 3), 2: calls(NAMES[1], 3)})
    assert [answers[call.name] for call in calls(NAMES[0], 3)] == [0, 0, 0]
    assert [answers[call.name] for call in calls(NAMES[1], 3)] == [NETWORK_EXCEPTION] * 3
    assert client.broken
    assert f"127.0.0.1:{cluster.ports[2]} broke" in client.last_failure()


def test_a_broker_that_is_not_known_has_no_answer(client: BrokerClient) -> None:
    assert client.end({9: calls(NAMES[0])}) == {NAMES[0]: NETWORK_EXCEPTION}
    assert client.broken


def test_a_client_that_raised_is_not_used_again(cluster: ScriptedBrokers) -> None:
    """Answers of other brokers are on their way, and would be taken for those of the next requests."""

    def login(_host: str) -> SaslMechanism:
        raise ExternalError("the provider of tokens is away", retry=True)

    opened = BrokerClient(cluster.bootstrap, ConnectionSettings(), answer_timeout_ms=int(WAIT_SECONDS * 1_000))
    opened._settings = ConnectionSettings(login=login)
    with pytest.raises(ExternalError, match="provider of tokens"):
        opened.end({1: calls(NAMES[0])})
    assert opened.broken
    opened.close()
