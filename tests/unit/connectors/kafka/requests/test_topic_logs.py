"""Identities of topics from brokers of which one, the controller, may be down. With a real one: `integration/kafka`."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator

import pytest

from headrace.connect.source import Split, SplitId
from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.requests.topic_logs import TopicLogRequests, TopicLogs
from headrace_connectors.kafka.source.topic_watch import IdentityWatch
from support.kafka.scripted_brokers import CONTROLLER, METADATA, ScriptedBrokers
from support.processes.running import WAIT_SECONDS

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def named(number: uuid.UUID) -> str:
    return f"c/{base64.b64encode(number.bytes).decode().rstrip('=')}"


@pytest.fixture
def cluster() -> Iterator[ScriptedBrokers]:
    running = ScriptedBrokers()
    running.topics["t"] = FIRST
    yield running
    running.close()


def test_any_broker_answers_while_the_controller_is_down(cluster: ScriptedBrokers) -> None:
    cluster.stop(CONTROLLER)
    logs = TopicLogs(cluster.bootstrap, {})
    assert logs.of(["t"]) == {"t": named(FIRST)}
    logs.close()


def test_a_reader_begins_while_the_controller_is_down(cluster: ScriptedBrokers) -> None:
    """As one does that starts again: what its splits were resolved in is checked first."""
    cluster.stop(CONTROLLER)
    watch = IdentityWatch("n", cluster.bootstrap, {})
    watch.add([Split(SplitId("t", 0), 7, identity=named(FIRST))])
    assert watch.verified(time.monotonic() + WAIT_SECONDS)
    watch.require_same()
    cluster.topics["t"] = SECOND
    with pytest.raises(UserError, match="made anew"):
        watch.require_same()
    watch.close()


def test_without_a_broker_a_reader_waits_until_its_deadline_and_begins_later(cluster: ScriptedBrokers) -> None:
    for number in (1, 2):
        cluster.stop(number)
    watch = IdentityWatch("n", cluster.bootstrap, {})
    watch.add([Split(SplitId("t", 0), 7, identity=named(FIRST))])
    assert not watch.verified(time.monotonic() + 0.05)
    cluster.start(2)
    assert watch.verified(time.monotonic() + WAIT_SECONDS)
    watch.close()


def test_without_a_broker_the_caller_learns_the_reason(cluster: ScriptedBrokers) -> None:
    for number in (1, 2):
        cluster.stop(number)
    logs = TopicLogs(cluster.bootstrap, {}, patience_s=0.0)
    with pytest.raises(ExternalError, match=r"no Kafka broker answers at .*refused") as raised:
        logs.of(["t"])
    assert raised.value.retry


def test_topics_without_an_identity_are_left_out(cluster: ScriptedBrokers) -> None:
    cluster.topics["t"] = uuid.UUID(int=0)
    logs = TopicLogs(cluster.bootstrap, {})
    assert logs.of(["t"]) == {}
    assert logs.of([]) == {}
    logs.close()


def test_settings_that_only_librdkafka_supports_leave_topics_unchecked(cluster: ScriptedBrokers) -> None:
    properties = {"ssl.keystore.location": "/k", "security.protocol": "ssl"}
    assert TopicLogs(cluster.bootstrap, properties).of(["t"]) == {}
    watch = IdentityWatch("n", cluster.bootstrap, properties)
    watch.add([Split(SplitId("t", 0), 7, identity=named(FIRST))])
    assert watch.verified(time.monotonic() + WAIT_SECONDS)
    watch.close()
    assert cluster.asked == {1: [], 2: []}


def test_requests_that_wait_are_one(cluster: ScriptedBrokers) -> None:
    """However often a barrier asks while a broker is silent, at most one request waits."""
    requests = TopicLogRequests(cluster.bootstrap, {})
    with cluster.held():
        begun = requests.ask(["t"])
        cluster.wait_held()
        waiting = {id(requests.ask(["t"])) for _ in range(100)}
        assert len(waiting) == 1
        assert id(begun) not in waiting
        later = requests.ask(["t"])
    assert begun.result(WAIT_SECONDS) == later.result(WAIT_SECONDS) == {"t": named(FIRST)}
    requests.close()
    asked = [key for each in cluster.asked.values() for key, _ in each]
    # one to know the brokers, and one each
    assert asked.count(METADATA) == 3
