"""A topic with transactions, read to its end: what was committed just then is waited for, what stays open is told."""

from __future__ import annotations

import pytest

from headrace.local.topics import records
from headrace.local.topics.records import consume
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, produce, unique_topic
from support.kafka.raw_transactions import transactional
from support.processes.running import WAIT_SECONDS

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    """A record in each of two partitions."""
    monkeypatch.setattr("headrace.local.topics.topics.ANSWER_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(records, "_SILENT_SECONDS", WAIT_SECONDS)
    name = create_topic(broker, unique_topic(), 2)
    produce(broker, name, ["a", "b"], partition=[0, 1])
    return name


def test_a_transaction_that_stays_open_is_told_of(broker: EmbeddedBroker, topic: str) -> None:
    writer = transactional(broker)
    writer.begin_transaction()
    writer.produce(topic, "open", partition=1)
    writer.flush()
    told: list[tuple[int, int]] = []
    found = list(consume(broker.bootstrap, topic, on_open=lambda *place: told.append(place)))
    assert sorted(record.value or b"" for record in found) == [b"a", b"b"]
    assert told == [(1, 1)]
    writer.abort_transaction()


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_that_is_just_ending_is_waited_for(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch, *, commits: bool
) -> None:
    monkeypatch.setattr(records, "_OPEN_SECONDS", WAIT_SECONDS)
    writer = transactional(broker)
    writer.begin_transaction()
    writer.produce(topic, "late", partition=1)
    writer.flush()
    told: list[tuple[int, int]] = []
    reading = consume(broker.bootstrap, topic, on_open=lambda *place: told.append(place))
    found = [next(reading), next(reading)]
    if commits:
        writer.commit_transaction()
    else:
        writer.abort_transaction()
    found += reading
    assert sorted(record.value or b"" for record in found) == [b"a", b"b"] + [b"late"] * commits
    assert not told
