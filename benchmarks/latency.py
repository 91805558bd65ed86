"""Latency of P at 1,000 messages a second: from the input's CreateTime to the broker's append time of the output.

    probes into every partition ──> the output has one of each: the job has reached the topics' end
    rows for SECONDS            ──> the output has all of them: each has a latency. A missing one is an error

A broker that has just started needs some seconds until it has its final speed: call `warm_up` before the first measured
run.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from workloads.data import PARTITIONS

from headrace.local.topics.topics import create_topic

RATE, SECONDS = 1_000, 12.0
PROBE_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
_number = itertools.count()


def warm_up(brokers: str, script: str) -> None:
    """Makes a run whose figures are discarded."""
    _run(brokers, script)


def measure(brokers: str, script: str) -> tuple[float, float]:
    """p50 and p99 in ms of one run; the first third is warm-up and is excluded. Exits if a row is missing."""
    taken = _run(brokers, script)
    taken = taken[len(taken) // 3 :]
    return float(np.percentile(taken, 50)), float(np.percentile(taken, 99))


def _run(brokers: str, script: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The latency of each row, in the order of the rows."""
    number = next(_number)
    source, sink = f"latency-in-{number}", f"latency-out-{number}"
    create_topic(brokers, source, partitions=PARTITIONS)
    create_topic(brokers, sink, partitions=PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "acks": "1"})
    sent, made = _Stamps(brokers, source), _Stamps(brokers, sink)
    with _following(script, brokers, source, sink):
        _probe(producer, source, made)
        rows = _feed(producer, source)
        made.read_until(lambda: made.rows >= rows)
    sent.read_until(lambda: sent.rows >= rows)
    sent.close()
    made.close()
    missing = sorted(sent.of.keys() - made.of.keys() - {key for key in sent.of if key < 0})
    if missing:
        sys.exit(f"{script}: {len(missing)} of {rows} rows did not come out: {missing[:5]} .. {missing[-5:]}")
    return np.array([made.of[key] - sent.of[key] for key in range(rows)])


@contextmanager
def _following(script: str, brokers: str, source: str, sink: str) -> Iterator[None]:
    """P from the topic's end on."""
    job = subprocess.Popen(
        [sys.executable, script, "p", brokers, source, sink, "follow"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
        assert job.poll() is None, f"{script} has ended with {job.returncode}"
    finally:
        assert job.stdin is not None
        job.stdin.close()
        job.wait()


def _probe(producer: Producer, topic: str, made: _Stamps) -> None:
    """Sends rows with negative keys until the job has passed on one of every partition."""
    for number in itertools.count(1):
        producer.produce(topic, _message(-number), None, number % PARTITIONS)
        producer.poll(0)
        if number % PARTITIONS == 0:
            made.read(PROBE_SECONDS)
            if len({key % PARTITIONS for key in made.of}) == PARTITIONS:
                return
            if number > PATIENCE_SECONDS / PROBE_SECONDS * PARTITIONS:
                sys.exit(f"no row of each partition came out within {PATIENCE_SECONDS:g} s")


def _feed(producer: Producer, topic: str) -> int:
    """Sends rows with the keys from 0 on; returns how many."""
    start, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - start) < SECONDS:
        while sent < now * RATE:
            producer.produce(topic, _message(sent), None, sent % PARTITIONS)
            sent += 1
        producer.poll(0)
        time.sleep(0.0005)
    producer.flush()
    return sent


def _message(key: int) -> bytes:
    return b'{"k": %d, "ts": %d, "v": 0.9}' % (key, time.time_ns() // 1_000_000)


class _Stamps:
    """The record timestamp of each key of a topic, as far as it was read."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.of: dict[int, int] = {}
        self.rows = 0
        """The number of rows that were read, with keys from 0 on."""
        self._consumer = Consumer({"bootstrap.servers": brokers, "group.id": "latency"})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def read(self, seconds: float) -> None:
        """Continues to read, for at most this time."""
        for message in self._consumer.consume(2000, seconds):
            if message.error():
                sys.exit(f"the benchmark's reader: {message.error()}")
            key = int((message.value() or b"").split(b",", 1)[0].split(b":", 1)[1])
            self.rows += key >= 0 and key not in self.of
            self.of[key] = message.timestamp()[1]

    def read_until(self, is_so: Callable[[], bool]) -> None:
        """Continues to read until the condition is true, for at most PATIENCE_SECONDS."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so() and time.monotonic() < deadline:
            self.read(0.2)

    def close(self) -> None:
        """Closes the clients."""
        self._consumer.close()
