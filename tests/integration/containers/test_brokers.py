"""Three brokers of which one is lost: what was written stays, and writing and reading go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.connect.sink import Committable, SinkContext
from headrace.core.errors import UnreachableError
from headrace.core.types import schema_of
from headrace.local.topics import topics as broker_topics
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.clients.transaction_names import names_of
from headrace_connectors.kafka.transactions.committer import KafkaCommitter
from support.containers.kafka import KafkaContainers
from support.kafka.broker import consume_all, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until


@pytest.fixture(scope="module")
def kafka(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaContainers]:
    """Whoever takes a broker away brings it back."""
    with KafkaContainers(tmp_path_factory.mktemp("kafka"), brokers=3) as running:
        yield running


def values(kafka: KafkaContainers, topic: str) -> list[str]:
    try:
        # a leader that is new may not know the end yet, which this waits for
        broker_topics.offset_ranges(kafka.bootstrap, topic)
    except UnreachableError:
        return []  # nobody answers yet: whoever asks, asks again
    return sorted((record.value or b"").decode() for record in consume_all(kafka, topic))


def in_transaction(kafka: KafkaContainers, name: str) -> Producer:
    """A producer with a transaction that lasts while brokers come and go: by default it would expire after 60 s."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 600_000,
            "log_level": 2,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    return producer


@pytest.mark.full  # `test_exactly_once` kills one while rows flow
def test_the_leader_s_broker_is_killed(kafka: KafkaContainers) -> None:
    topic = kafka.create_topic(unique_topic("events"), partitions=2)
    before, while_away, after = ([f"{when}-{number}" for number in range(50)] for when in ("before", "away", "after"))
    produce(kafka, topic, before, partition=0, idempotent=True)

    leader = kafka.leader_of(topic, 0)
    kafka.kill(leader)
    produce(kafka, topic, while_away, partition=0, idempotent=True)
    # a broker that has not heard better yet still says so
    wait_until(lambda: kafka.leader_of(topic, 0) != leader, "another one leads")
    wait_until(lambda: values(kafka, topic) == sorted(before + while_away), "rows of before and since are there")

    kafka.start(leader)
    kafka.wait_in_sync(topic)
    produce(kafka, topic, after, idempotent=True)
    wait_until(lambda: values(kafka, topic) == sorted(before + while_away + after), "all rows are there")


@pytest.mark.full
def test_a_transaction_outlives_its_coordinator(kafka: KafkaContainers) -> None:
    topic = kafka.create_topic(unique_topic("sums"))
    name = unique_topic("transactions")
    producer = in_transaction(kafka, name)
    producer.produce(topic, b"open")
    assert producer.flush(WAIT_SECONDS) == 0

    coordinator = kafka.coordinator_of(name)
    kafka.kill(coordinator)
    producer.commit_transaction()
    wait_until(lambda: kafka.coordinator_of(name) != coordinator, "another one coordinates")
    # a commit stands when the coordinator has it in its log; the topic gets to know later
    wait_until(lambda: values(kafka, topic) == ["open"], "the row is committed")

    kafka.start(coordinator)
    kafka.wait_in_sync(topic)


@pytest.mark.full
def test_a_broker_that_is_cut_off_catches_up(kafka: KafkaContainers) -> None:
    topic = kafka.create_topic(unique_topic("events"))
    leader = kafka.leader_of(topic, 0)

    kafka.disconnect(leader)
    produce(kafka, topic, ["written meanwhile"], idempotent=True)
    wait_until(lambda: kafka.leader_of(topic, 0) != leader, "another one leads")

    kafka.connect(leader)
    kafka.wait_in_sync(topic)
    # a client may still be told that the old leader leads, by a broker that has not heard better yet
    wait_until(lambda: values(kafka, topic) == ["written meanwhile"], "the row is there")


def prepared(kafka: KafkaContainers, topic: str, name: str) -> Committable:
    """What a writer's flush gives: its producer is gone, the transaction is open."""
    producer = in_transaction(kafka, name)
    producer.produce(topic, name)
    assert producer.flush(WAIT_SECONDS) == 0
    return Committable("out", 0, 1, {}, name, 1)


def wait_open(committer: KafkaCommitter, names: list[str]) -> None:
    """Until all brokers say that these are open, and no others.

    What was ended a moment ago may still be ending, who took over may still be loading, and who stood still may think
    that nothing has happened.
    """
    wait_until(lambda: sorted(each.name for each in committer.open_transactions()) == names, f"{names} are open")


@pytest.mark.full
def test_the_committer_follows_coordinators_that_are_killed_and_stand_still(
    kafka: KafkaContainers, request: pytest.FixtureRequest
) -> None:
    topic, job = kafka.create_topic(unique_topic("sums")), unique_topic("job")
    names = [str(names_of(job, "out", 1, subtask, 1)[0]) for subtask in range(9)]
    config = KafkaSinkConfig.model_validate({"brokers": kafka.bootstrap, "topic": topic})
    context = SinkContext(job, "out", 0, 1, schema_of({"k": "string"}))
    committer = KafkaCommitter(config, context, patience_s=WAIT_SECONDS)
    request.addfinalizer(committer.close)
    there = committer.describe([prepared(kafka, topic, name) for name in names])
    assert committer.commit(there[:2]) == []

    killed = kafka.coordinator_of(names[3])
    kafka.kill(killed)
    assert committer.commit(there[:5]) == []
    wait_open(committer, names[5:])
    kafka.start(killed)
    kafka.wait_in_sync(topic)

    still = kafka.coordinator_of(names[5])
    kafka.pause(still)
    assert committer.commit(there[:7]) == []
    committer.fence(names[7:8])
    kafka.unpause(still)
    kafka.wait_in_sync(topic)
    wait_open(committer, names[8:])
    swept: set[str] = set()

    def last_is_swept() -> bool:
        swept.update(committer.sweep(2))
        return names[8] in swept

    wait_until(last_is_swept, "the last one is swept")
    # who stood still may have listed what it coordinated as open once more: to fence what is committed changes nothing
    # but that a repeated commit no longer knows it
    assert swept <= {*names[5:7], names[8]}
    lost = {item.name for item in committer.commit(there)}
    assert {*names[7:]} <= lost <= {names[7], *swept}
    wait_until(lambda: values(kafka, topic) == names[:7], "what was committed is visible")
