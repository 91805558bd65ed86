"""The partitions to which records are sent, and the behaviour without a known number of partitions."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from headrace.connect.sink import SinkContext
from headrace.core.errors import ExternalError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.sink.record_sender import SPREAD_ROWS, RecordSender
from headrace_connectors.kafka.sink.records import Records


class Queue:
    """Records the calls. `count`: partitions of its topic; 0: no broker answers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0
        self.sent: list[tuple[int, int]] = []
        self.by_key: list[tuple[int, int]] = []

    def send(self, records: Records, partition: int) -> None:
        self.sent.append((len(records), partition))

    def send_by_key(self, records: Records, partitions: int) -> None:
        self.by_key.append((len(records), partitions))

    def hurry(self) -> None:
        raise AssertionError("rows of a transaction do not hurry")

    def flush(self) -> None:
        raise AssertionError("the writer flushes")

    def close(self) -> None:
        raise AssertionError("the writer closes")

    def partitions(self) -> int:
        self.asked += 1
        if not self.count:
            raise ExternalError("no broker answers")
        return self.count


@pytest.fixture
def sender() -> RecordSender:
    config = KafkaSinkConfig.model_validate({"brokers": "b:1", "topic": "t"})
    context = SinkContext("j", "out", 0, 1, schema_of({"k": "string"}), format="json")
    return RecordSender(config, context, transactional=True)


def rows(count: int) -> pa.Array:
    return pa.array([b"v"] * count, pa.large_binary())


def test_rows_without_a_key_go_to_one_partition_after_the_other(sender: RecordSender) -> None:
    queue = Queue(3)
    sender.send(queue, Records(rows(2 * SPREAD_ROWS + 1)))
    assert queue.sent == [(SPREAD_ROWS, 1), (SPREAD_ROWS, 2), (1, 0)]
    assert not queue.by_key


def test_rows_with_keys_go_over_whole_with_the_number_of_partitions(
    sender: RecordSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(3)
    for _ in range(2):
        sender.send(queue, Records(rows(10_000), rows(10_000)))
    assert (queue.asked, queue.sent) == (1, [])
    queue.count = 5
    # partitions were added: noticed when the number is old
    monkeypatch.setattr(time, "monotonic", lambda: sender._partitions_due)
    sender.send(queue, Records(rows(1), rows(1)))
    assert queue.by_key == [(10_000, 3), (10_000, 3), (1, 5)]


def test_without_a_broker_rows_with_keys_wait_in_the_client_and_others_are_refused(sender: RecordSender) -> None:
    queue = Queue(0)
    sender.send(queue, Records(rows(1), rows(1)))
    assert queue.by_key == [(1, 0)]
    sender._partitions_due = 0.0
    with pytest.raises(ExternalError, match="no broker answers"):
        sender.send(queue, Records(rows(1)))
