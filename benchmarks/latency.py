"""Latency of P at 1,000 messages a second: from the input's CreateTime to the broker's append time of the output."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from data import PARTITIONS

from headrace.local.broker.topics import create_topic

RATE, SECONDS, SETTLE_SECONDS = 1_000, 12.0, 4.0
_number = itertools.count()


def measure(brokers: str, script: str) -> tuple[float, float]:
    """p50 and p99 in ms of one run; the first third is warm-up and left out."""
    number = next(_number)
    source, sink = f"latency-in-{number}", f"latency-out-{number}"
    create_topic(brokers, source, partitions=PARTITIONS)
    create_topic(brokers, sink, partitions=PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})
    seconds = str(SECONDS + SETTLE_SECONDS + 2)
    job = subprocess.Popen([sys.executable, script, "p", brokers, source, sink, seconds], stdout=subprocess.DEVNULL)
    time.sleep(SETTLE_SECONDS)  # the job reads from the topic's end: let it get there
    _feed(brokers, source)
    job.wait()
    before, after = _stamps(brokers, source), _stamps(brokers, sink)
    taken = np.array([after[key] - before[key] for key in sorted(before) if key in after])
    taken = taken[len(taken) // 3 :]
    return float(np.percentile(taken, 50)), float(np.percentile(taken, 99))


def _feed(brokers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "acks": "1"})
    start, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - start) < SECONDS:
        while sent < now * RATE:
            message = b'{"k": %d, "ts": %d, "v": 0.9}' % (sent, time.time_ns() // 1_000_000)
            producer.produce(topic, message, None, sent % PARTITIONS)
            sent += 1
        producer.poll(0)
        time.sleep(0.0005)
    producer.flush()


def _stamps(brokers: str, topic: str) -> dict[bytes, int]:
    """The record timestamp of each `k`."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "latency", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    stamps: dict[bytes, int] = {}
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(2000, 0.2):
            if message.error():
                ended.add(message.partition())
            else:
                key = message.value().split(b",", 1)[0].replace(b" ", b"")
                stamps[key] = message.timestamp()[1]
    consumer.close()
    return stamps
