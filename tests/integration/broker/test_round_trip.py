"""The session's broker and the helpers that other tests stand on."""

from __future__ import annotations

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic

pytestmark = pytest.mark.broker


def test_records_come_back_as_they_were_written(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic(), 2)
    produce(broker, topic, [b"a", b"b", None], keys=["k", None, b"k"], partition=[0, 1, 1], timestamps=[1, 2, 3])
    records = consume_all(broker, topic)
    assert [(r.partition, r.offset, r.key, r.value, r.timestamp) for r in records] == [
        (0, 0, b"k", b"a", 1),
        (1, 0, None, b"b", 2),
        (1, 1, b"k", None, 3),
    ]


def test_an_empty_topic_reads_as_no_records(broker: EmbeddedBroker) -> None:
    assert consume_all(broker, create_topic(broker, unique_topic(), 3)) == []
