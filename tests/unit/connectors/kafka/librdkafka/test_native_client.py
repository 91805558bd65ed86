"""Clients that are refused when they are opened leave nothing behind."""

from __future__ import annotations

import ctypes

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.clients.client import ClientWatch, base_settings
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.sink.producers import NativeProducer
from headrace_connectors.kafka.source.consumers import NativeConsumer, take_of
from headrace_connectors.kafka.source.fetched import FetchWish

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def loaded() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found


def test_a_producer_whose_topic_is_refused_ends_its_client(loaded: ctypes.CDLL) -> None:
    before = loaded.rd_kafka_thread_cnt()
    with pytest.raises(ExternalError, match="opens no handle for topic"):
        NativeProducer(loaded, NOWHERE, "t" * 600, {})
    assert loaded.rd_kafka_thread_cnt() <= before


def test_a_consumer_without_a_group_ends_its_client(loaded: ctypes.CDLL) -> None:
    watch = ClientWatch(NOWHERE)
    wish = FetchWish(base_settings(NOWHERE, {}, watch), watch, lambda _: None)
    take = take_of(loaded, wish)
    assert take is not None
    before = loaded.rd_kafka_thread_cnt()
    with pytest.raises(UserError, match="settings are not valid: Local: Unknown group"):
        NativeConsumer(loaded, wish, take)
    assert loaded.rd_kafka_thread_cnt() <= before
