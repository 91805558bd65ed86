"""When a producer may be dropped, without a broker: what the log has to say is no record."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from headrace.core.errors import InternalError
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.producers import NativeProducer
from headrace_connectors.kafka.sink.records import Records

Producer = NativeProducer | ClientProducer
NOWHERE = "127.0.0.1:1"


def native() -> Producer:
    loaded = library()
    assert loaded is not None
    return NativeProducer(loaded, NOWHERE, "t", {})


def client() -> Producer:
    return ClientProducer(NOWHERE, "t", {})


def queued(producer: Producer) -> int:
    """What the library has in its queue, of any kind."""
    if isinstance(producer, NativeProducer):
        return int(producer._lib.rd_kafka_outq_len(producer._handle))
    return len(producer._producer)


@pytest.mark.parametrize("make", [native, client])
def test_log_lines_that_wait_do_not_keep_a_producer_from_being_dropped(make: Callable[[], Producer]) -> None:
    producer = make()
    producer.flush()
    due = time.monotonic() + 120
    while not queued(producer):
        assert time.monotonic() < due, "a refused connection is logged"
        time.sleep(0.001)
    producer.drop()


@pytest.mark.parametrize("make", [native, client])
def test_a_producer_with_records_is_not_dropped(make: Callable[[], Producer]) -> None:
    producer = make()
    producer.send(Records(pa.array([b"v"], pa.large_binary())), 0)
    with pytest.raises(InternalError, match="was to be prepared before its records were delivered"):
        producer.drop()
    # it is still open: a close discards what is queued
    producer.close()
