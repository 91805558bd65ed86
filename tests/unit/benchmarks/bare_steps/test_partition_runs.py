"""Runs of messages are those of a walk over every message."""

from __future__ import annotations

from typing import cast

import pytest
from bare_steps.partition_runs import PartitionRun, partition_runs
from confluent_kafka import KafkaError, KafkaException, Message
from hypothesis import given
from hypothesis import strategies as st


class Read:
    """A message that was read, or an error."""

    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


def walked(messages: list[Read], base: int) -> list[PartitionRun]:
    runs: list[PartitionRun] = []
    for place, message in enumerate(messages, base):
        if runs and (runs[-1].partition, runs[-1].end) == (message.partition(), message.offset()):
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(PartitionRun(message.partition(), place, 1, message.offset()))
    return runs


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=12), st.integers(0, 9))
def test_runs_are_found(batches: list[tuple[int, int]], base: int) -> None:
    ends = dict.fromkeys(range(3), 0)
    messages: list[Read] = []
    for partition, length in batches:
        messages += [Read(partition, ends[partition] + step) for step in range(length)]
        ends[partition] += length
    assert partition_runs(cast("list[Message]", messages), base) == walked(messages, base)


def test_an_error_is_raised() -> None:
    failed = Read(0, 0, KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(KafkaException):
        partition_runs(cast("list[Message]", [failed]))
