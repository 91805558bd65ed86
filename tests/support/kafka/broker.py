"""Real brokers for tests, and quick ways to fill and read them.

Tests use the fixture `broker` (`support.suite.shared_broker`), which all test processes share, with topics of their own
(`unique_topic`); a test that stops, kills or freezes a broker uses `own_broker` or `running_broker`. Clients wait for
as long as `support.patience` says.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from support.kafka.log_ends import PATIENCE_SECONDS, TopicLogs, admin_client, log_ends
from support.patience import SHORT_BROKER_SESSION
from support.processes.running import wait_until

SETTINGS = {
    # records of tests are as old as they like: the broker would delete them, at a time of its own
    "log.retention.ms": "-1",
    # who compacts waits for nothing
    "log.cleaner.backoff.ms": "200",
    **SHORT_BROKER_SESSION,
}
"""What a broker for tests is told besides."""


class Broker(Protocol):
    """A Kafka that runs somewhere: a broker of a test's own, or several in containers."""

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients here, more with commas between."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the broker has it; `timestamp` in ms."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, str | bytes | None], ...]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that the test may stop, kill and freeze."""
    with running_broker(tmp_path / "kafka") as running:
        yield running


@contextmanager
def running_broker(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[EmbeddedBroker]:
    """A broker of the caller's own. What it leaves is nobody's: it is killed, which takes no time."""
    running = EmbeddedBroker(broker_config(folder, settings=settings))
    running.start()
    try:
        yield running
    finally:
        running.kill()


def broker_config(folder: Path, *, settings: Mapping[str, str] | None = None) -> BrokerConfig:
    """A broker for tests, with its data in `folder`."""
    told = SETTINGS | dict(settings or {})
    return BrokerConfig(folder, short_lived=True, start_seconds=PATIENCE_SECONDS, settings=told)


def unique_topic(stem: str = "topic") -> str:
    """A topic name that no other test has."""
    return f"{stem}-{uuid.uuid4().hex[:10]}"


def create_topic(
    broker: Broker, name: str, partitions: int = 1, *, copies: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Make a topic and return its name, once its partitions take records."""
    admin = admin_client(broker.bootstrap)
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=copies, config=dict(config or {}))
    (made,) = admin.create_topics(
        [wanted], operation_timeout=PATIENCE_SECONDS, request_timeout=PATIENCE_SECONDS
    ).values()
    made.result()
    log_ends(broker.bootstrap, name, range(partitions))
    return name


def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic; return once it is gone, so that one of its name can be made."""
    admin = admin_client(broker.bootstrap)
    for answer in admin.delete_topics([name], request_timeout=PATIENCE_SECONDS).values():
        answer.result()
    wait_until(lambda: name not in admin.list_topics(timeout=5).topics, f"topic {name} is gone")


def produce(
    broker: Broker,
    topic: str,
    values: Sequence[bytes | str | None],
    *,
    keys: Sequence[bytes | str | None] | None = None,
    partition: int | Sequence[int] | None = None,
    timestamps: Sequence[int] | None = None,
    headers: Sequence[list[tuple[str, str | bytes | None]]] | None = None,
    idempotent: bool = False,
) -> None:
    """Write records in order and wait until the broker has them all.

    partition    one for all, or one a record; None leaves it to the key (Java's murmur2) or to chance
    idempotent   each is there once, also where brokers come and go
    """
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            # one request in flight keeps the order over retries; an idempotent producer takes 0.5 s to begin
            "max.in.flight.requests.per.connection": 1,
            "enable.idempotence": idempotent,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 5,
            # an answer that comes late is waited for: the record must not be sent twice
            "socket.timeout.ms": int(PATIENCE_SECONDS * 1000),
            "request.timeout.ms": int(PATIENCE_SECONDS * 1000),
            "log_level": 3,
        }
    )
    for at, value in enumerate(values):
        fixed = partition if partition is None or isinstance(partition, int) else partition[at]
        while True:
            try:
                producer.produce(
                    topic,
                    value=value,
                    key=keys[at] if keys is not None else None,
                    partition=-1 if fixed is None else fixed,
                    timestamp=timestamps[at] if timestamps is not None else 0,
                    headers=headers[at] if headers is not None else None,
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if at % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(PATIENCE_SECONDS)
    assert not failures, failures[0]
    assert left == 0, f"{left} records were not delivered"


def consume_all(broker: Broker, topic: str, isolation: str = "read_committed") -> list[Record]:
    """Every record up to the ends at the time of the call, by partition and offset.

    All records of transactions that were ended before: their markers are waited for.
    """
    logs = TopicLogs(broker.bootstrap, topic)
    if isolation == "read_committed":
        logs.wait_settled()
    starts = logs.starts()
    # made just before it is used: one that connects while it has nothing to read finds new leaders only after 1 s
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "headrace-tests",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
            # the end of a partition is told by a fetch that waited this long in vain
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, p, start) for p, start in starts.items()])
        return sorted(_read_to_ends(consumer, set(logs.partitions)), key=lambda r: (r.partition, r.offset))
    finally:
        consumer.close()


def _read_to_ends(consumer: Consumer, open_partitions: set[int]) -> list[Record]:
    records: list[Record] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while open_partitions:
        assert time.monotonic() < deadline, f"partitions {sorted(open_partitions)} did not end"
        for message in consumer.consume(1000, 0.01):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(_number(message.partition()))
            else:
                raise KafkaException(error)
    return records


def _record(message: Message) -> Record:
    headers = message.headers()
    return Record(
        partition=_number(message.partition()),
        offset=_number(message.offset()),
        key=message.key(),
        value=message.value(),
        timestamp=message.timestamp()[1],
        headers=tuple(dict(headers).items() if isinstance(headers, dict) else headers or ()),
    )


def _number(value: int | None) -> int:
    assert value is not None
    return value
