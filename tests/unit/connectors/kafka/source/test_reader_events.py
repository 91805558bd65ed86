"""Events of the client that are no records. Needs no broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from headrace.connect.source import SourceContext
from headrace.core.errors import ExternalError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_connectors.kafka.source.fetched import FetchEvent
from headrace_connectors.kafka.source.reader import KafkaReader, _Gathered


@pytest.fixture
def reader() -> Iterator[KafkaReader]:
    config = KafkaSourceConfig.model_validate({"brokers": "127.0.0.1:1", "topic": "t"})
    opened = KafkaReader(config, SourceContext("j", "in", schema_of({"n": "int64"})))
    yield opened
    opened.close()


def test_the_end_of_no_partition_is_an_error_of_the_client(reader: KafkaReader) -> None:
    with pytest.raises(ExternalError):
        reader._on_event(FetchEvent(KafkaError(KafkaError._PARTITION_EOF)), _Gathered())
