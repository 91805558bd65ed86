"""Fills the topics of the runs with messages, and reads them back after every transaction in them has ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headrace.local.topics.topics import create_topic
from peers.jobs import PARTITIONS

QUEUE_MESSAGES, READ_MESSAGES, WAIT_S = 1_000_000, 10_000, 60.0


class UnfinishedTopicError(Exception):
    """A topic has a transaction that did not end, or records that were not received, within `WAIT_S`."""


def create(brokers: str, topic: str) -> str:
    """Creates a topic that keeps its records: Flink stamps them with event time, which retention would call old."""
    create_topic(brokers, topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
    return topic


def fill(brokers: str, topic: str, chunks: Iterable[list[bytes]]) -> int:
    """Writes message n to partition n modulo `PARTITIONS`; returns the bytes of all values."""
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 500_000,
            "queue.buffering.max.messages": QUEUE_MESSAGES,
            "queue.buffering.max.kbytes": 1_000_000,
            "enable.idempotence": True,
            # a new broker's coordinator is loading for a moment, which is retried and no news
            "log_level": 3,
        }
    )
    count = size = 0
    for chunk in chunks:
        while len(producer) + len(chunk) > QUEUE_MESSAGES:
            producer.poll(0.01)
        for message in chunk:
            producer.produce(topic, message, None, count % PARTITIONS)
            count += 1
            size += len(message)
        producer.poll(0)
    producer.flush()
    return size


def read_committed(brokers: str, topic: str) -> Iterator[list[bytes]]:
    """Yields all committed values of a topic.

    Raises UnfinishedTopicError if a transaction stays open: its records would be missing without an error.
    """
    ends = _ended(brokers, topic)
    consumer = _consumer(brokers, "read_committed")
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    # the last records of a partition may be aborted or markers, so its end is an event and no record's offset
    left, deadline = {number for number, end in ends.items() if end}, time.monotonic() + WAIT_S
    while left:
        messages = consumer.consume(READ_MESSAGES, 0.1)
        if messages:
            deadline = time.monotonic() + WAIT_S
        elif time.monotonic() > deadline:
            raise UnfinishedTopicError(f"{topic}: no end of partitions {sorted(left)} after {WAIT_S:.0f} s")
        yield [value for message in messages if (value := _value(message, left)) is not None]
    consumer.close()


def _value(message: Message, left: set[int]) -> bytes | None:
    """The value; None for an end of partition, which is removed from `left`. No job writes empty values."""
    if message.error() is None:
        return message.value()
    partition = message.partition()
    assert partition is not None, message.error()
    left.discard(partition)
    return None


def _ended(brokers: str, topic: str) -> dict[int, int]:
    """Waits until no transaction is open, and returns the end of each partition.

    A broker confirms the end of a transaction before its markers are in the partitions.
    """
    committed, written = _consumer(brokers, "read_committed"), _consumer(brokers, "read_uncommitted")
    deadline = time.monotonic() + WAIT_S
    while (stable := _ends(committed, topic)) != (ends := _ends(written, topic)):
        if time.monotonic() > deadline:
            raise UnfinishedTopicError(f"{topic}: committed up to {stable}, written up to {ends} after {WAIT_S:.0f} s")
        time.sleep(0.05)
    committed.close()
    written.close()
    return ends


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    marks = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=WAIT_S)
        for number in range(PARTITIONS)
    }
    return {number: mark[1] for number, mark in marks.items() if mark is not None}


def _consumer(brokers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "peers-check",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
        }
    )
