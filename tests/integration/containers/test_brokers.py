"""Three brokers of which one is lost: what was written stays, and writing and reading go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.local.broker import topics as broker_topics
from support.broker import consume_all, produce, unique_topic
from support.containers.kafka import KafkaContainers
from support.running import wait_until


@pytest.fixture(scope="module")
def kafka(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaContainers]:
    """Whoever takes a broker away brings it back."""
    with KafkaContainers(tmp_path_factory.mktemp("kafka"), brokers=3) as running:
        yield running


def values(kafka: KafkaContainers, topic: str) -> list[str]:
    # a leader that is new may not know the end yet, which this waits for
    broker_topics.offset_ranges(kafka.bootstrap, topic)
    return sorted((record.value or b"").decode() for record in consume_all(kafka, topic))


def test_the_leader_s_broker_is_killed(kafka: KafkaContainers) -> None:
    topic = kafka.create_topic(unique_topic("events"), partitions=2)
    before, while_away, after = ([f"{when}-{number}" for number in range(50)] for when in ("before", "away", "after"))
    produce(kafka, topic, before, partition=0)

    leader = kafka.leader_of(topic, 0)
    kafka.kill(leader)
    produce(kafka, topic, while_away, partition=0)
    assert kafka.leader_of(topic, 0) != leader
    assert values(kafka, topic) == sorted(before + while_away)

    kafka.start(leader)
    kafka.wait_in_sync(topic)
    produce(kafka, topic, after)
    assert values(kafka, topic) == sorted(before + while_away + after)


def test_a_transaction_outlives_its_coordinator(kafka: KafkaContainers) -> None:
    topic = kafka.create_topic(unique_topic("sums"))
    name = unique_topic("transactions")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name, "log_level": 2})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0

    coordinator = kafka.coordinator_of(name)
    kafka.kill(coordinator)
    producer.commit_transaction()
    assert kafka.coordinator_of(name) != coordinator
    # a commit stands when the coordinator has it in its log; the topic gets to know later
    wait_until(lambda: values(kafka, topic) == ["open"], "the row is committed")

    kafka.start(coordinator)
    kafka.wait_in_sync(topic)


def test_a_broker_that_is_cut_off_catches_up(kafka: KafkaContainers) -> None:
    topic = kafka.create_topic(unique_topic("events"))
    leader = kafka.leader_of(topic, 0)

    kafka.disconnect(leader)
    produce(kafka, topic, ["written meanwhile"])
    assert kafka.leader_of(topic, 0) != leader

    kafka.connect(leader)
    kafka.wait_in_sync(topic)
    assert values(kafka, topic) == ["written meanwhile"]
