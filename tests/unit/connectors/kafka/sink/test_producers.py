"""What both producers have in common. Needs no broker: nothing is delivered."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from headrace.core.errors import InternalError
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.librdkafka.native_producer import NativeProducer
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.records import Records

BROKERS = "127.0.0.1:1"


def native() -> NativeProducer:
    loaded = library()
    assert loaded is not None
    return NativeProducer(loaded, BROKERS, "t", {})


def client() -> ClientProducer:
    return ClientProducer(BROKERS, "t", {})


@pytest.mark.parametrize("opened", [native, client])
def test_a_producer_with_queued_records_is_not_dropped(
    opened: Callable[[], NativeProducer | ClientProducer],
) -> None:
    producer = opened()
    producer.send(Records(pa.array([b"a", b"b"], pa.large_binary())), 0)
    with pytest.raises(InternalError, match="'t' was to be prepared with 2 records that are not delivered"):
        producer.drop()
    # it is still open: a close discards what is queued
    producer.close()
    producer.close()
