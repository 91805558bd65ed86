"""A consumer group that another consumer uses: the job reads as if it did not, and says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest
from confluent_kafka import Consumer

from headrace.connect.source import SourceContext, Split, SplitId
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_connectors.kafka.source.reader import KafkaReader
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.broker]

CONTEXT = SourceContext("p", "n", schema_of({"v": "string"}), "raw")
ROWS = 20


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = create_topic(broker, unique_topic("used"), 1)
    produce(broker, name, [str(number) for number in range(ROWS)])
    return name


def config_of(broker: EmbeddedBroker, topic: str, **fields: Any) -> KafkaSourceConfig:
    return KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topic": topic, **fields})


def splits_of(config: KafkaSourceConfig) -> list[Split]:
    return list(config.open_enumerator(CONTEXT).discover())


@contextmanager
def used(broker: EmbeddedBroker, group: str, topic: str) -> Iterator[None]:
    """Another consumer is a member of the group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    try:
        wait_until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "the consumer is a member")
        yield
    finally:
        consumer.close()


@pytest.mark.usefixtures("consumer_kind")
@pytest.mark.parametrize("begins", ["before", "after"])
def test_a_group_that_another_consumer_uses_is_told_once_and_fails_nothing(
    broker: EmbeddedBroker, topic: str, begins: str
) -> None:
    group, remarks, rows = unique_topic("group"), list[str](), 0
    config = config_of(broker, topic, group=group)
    with ExitStack() as other:
        if begins == "before":
            other.enter_context(used(broker, group, topic))
        reader = config.open_reader(CONTEXT)
        reader.assign(splits_of(config))
        deadline = time.monotonic() + WAIT_SECONDS
        while rows < ROWS or not remarks:
            assert time.monotonic() < deadline
            polled = reader.poll(20)
            rows += 0 if polled.batch is None else len(polled.batch)
            remarks += polled.remarks
            if rows == ROWS and begins == "after":
                # from now on commits are refused
                other.enter_context(used(broker, group, topic))
                reader.commit({SplitId(topic, 0): 3})
                begins = "under way"
        for _ in range(20):
            remarks += reader.poll(10).remarks
        reader.close()
    (remark,) = remarks
    assert f"another consumer uses group {group}" in remark


def test_a_group_of_its_own_is_no_remark(broker: EmbeddedBroker, topic: str) -> None:
    config = config_of(broker, topic, group=unique_topic("group"))
    reader = config.open_reader(CONTEXT)
    reader.assign(splits_of(config))
    group = cast("KafkaReader", reader)._group
    deadline = time.monotonic() + WAIT_SECONDS
    while group._pending is not None:
        assert time.monotonic() < deadline
        assert reader.poll(20).remarks == ()
    reader.commit({SplitId(topic, 0): 3})
    for _ in range(20):
        assert reader.poll(10).remarks == ()
    reader.close()
