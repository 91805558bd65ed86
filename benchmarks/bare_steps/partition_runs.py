"""Finds runs of messages of one partition without gaps: reads two messages per run instead of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException, Message


class PartitionRun(NamedTuple):
    """Messages [begin, begin + length) of a batch, with offsets from `offset` on."""

    partition: int
    begin: int
    length: int
    offset: int

    @property
    def end(self) -> int:
        """The offset after the run."""
        return self.offset + self.length


def partition_runs(messages: Sequence[Message], base: int = 0) -> list[PartitionRun]:
    """Returns the runs in order; `base` is the place of the first message. Raises KafkaException for a message that is
    an error and begins a run.

    Bisects on the offset: if two messages of a partition are as far apart as their offsets, the run is between them.
    That holds for the topics of benchmarks, whose offsets have no gaps. Where transactions or compaction leave gaps,
    one may be exactly as long as the messages of other partitions in between: the Kafka source reads every message.
    """
    runs: list[PartitionRun] = []
    begin, count = 0, len(messages)
    while begin < count:
        first = messages[begin]
        error = first.error()
        if error is not None:
            raise KafkaException(error)
        partition, offset = _place(first)
        low, high = begin, count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if _place(messages[middle]) == (partition, offset + middle - begin):
                low = middle
            else:
                high = middle - 1
        runs.append(PartitionRun(partition, base + begin, low - begin + 1, offset))
        begin = low + 1
    return runs


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None, "a message that was read has a partition"
    assert offset is not None, "a message that was read has an offset"
    return partition, offset
