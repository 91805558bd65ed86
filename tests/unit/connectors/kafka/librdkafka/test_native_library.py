"""A librdkafka that is not as the native clients expect is not used by them; confluent-kafka's own clients are."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka import native_library
from headrace_connectors.kafka.librdkafka.functions import MESSAGE, TopicPartitionList
from headrace_connectors.kafka.librdkafka.native_library import layout_problem, library, unfit
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.producers import NativeProducer, open_producer

NAMES = ("err", "topic", "partition", "payload", "len", "key", "key_len", "offset", "private")


@pytest.fixture
def found() -> ctypes.CDLL:
    loaded = librdkafka.loaded()
    assert loaded is not None
    return loaded


@pytest.fixture
def anew() -> Iterator[None]:
    """The library is judged once for each process: judged anew in this test, and after it."""
    library.cache_clear()
    yield
    library.cache_clear()


class OfVersion:
    """The library, under another version number."""

    def __init__(self, loaded: ctypes.CDLL, number: int) -> None:
        self._loaded, self._number = loaded, number

    def rd_kafka_version(self) -> int:
        return self._number

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is called in a library whose version is not tested")


def test_the_installed_library_is_used(found: ctypes.CDLL) -> None:
    assert unfit(found) is None


@pytest.mark.parametrize(("number", "text"), [(0x021100FF, "2.17.0"), (0x030000FF, "3.0.0"), (0x010901FF, "1.9.1")])
def test_another_version_is_not_called_at_all(found: ctypes.CDLL, number: int, text: str) -> None:
    problem = unfit(OfVersion(found, number))  # type: ignore[arg-type]  # as far as it is looked at
    assert problem == f"librdkafka {text} is not among the tested versions"


def layout(order: tuple[str, ...]) -> np.dtype[Any]:
    """A struct of the same size whose fields stand in this order."""
    fields = MESSAGE.fields
    assert fields is not None
    sizes = {name: fields[name][0] for name in NAMES}
    places = [8 * index for index in range(len(order))]
    formats = [sizes[name] for name in order]
    return np.dtype({"names": list(order), "formats": formats, "offsets": places, "itemsize": MESSAGE.itemsize})


def swapped(first: str, second: str) -> tuple[str, ...]:
    other = {first: second, second: first}
    return tuple(other.get(name, name) for name in NAMES)


def test_the_declared_order_is_the_layout() -> None:
    fields, again = MESSAGE.fields, layout(NAMES).fields
    assert fields is not None
    assert again is not None
    assert {name: fields[name][1] for name in NAMES} == {name: again[name][1] for name in NAMES}


@pytest.mark.parametrize(
    "pair", [("err", "partition"), ("payload", "key"), ("len", "key_len"), ("offset", "private"), ("topic", "offset")]
)
def test_reports_that_are_laid_out_otherwise_are_noticed(
    found: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    """The records go to the library as it wants them; its reports are read by another layout."""
    monkeypatch.setattr(native_library, "_read", reading(layout(swapped(*pair))))
    assert "rd_kafka_message_t" in str(layout_problem(found))


def reading(other: np.dtype[Any]) -> Any:
    def read(message: int) -> Any:
        (fields,) = np.frombuffer(ctypes.string_at(message, other.itemsize), other)
        numbers = {name: int(fields[name]) for name in NAMES}
        # what is no pointer is not followed
        return native_library._Report(numbers, None)

    return read


def test_a_list_of_partitions_with_other_items_is_noticed(found: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = ((("before"), ctypes.c_void_p), *librdkafka.TopicPartition._fields_)

    class LongerList(ctypes.Structure):
        _fields_ = (("count", ctypes.c_int), ("size", ctypes.c_int), ("items", ctypes.POINTER(Longer)))

    new = found.rd_kafka_topic_partition_list_new

    class Other:
        def rd_kafka_topic_partition_list_new(self, count: int) -> Any:
            return Cast(new(count))

        def __getattr__(self, name: str) -> Any:
            call = getattr(found, name)
            return lambda listed, *rest: call(getattr(listed, "whole", listed), *rest)

    class Cast:
        def __init__(self, whole: Any) -> None:
            self.whole = whole
            self.contents = ctypes.cast(whole, ctypes.POINTER(LongerList)).contents

    assert ctypes.sizeof(Longer) > ctypes.sizeof(TopicPartitionList)
    assert layout_problem(Other()) == "the size of a partition in a list"  # type: ignore[arg-type]


@pytest.mark.usefixtures("anew")
def test_a_library_that_is_unfit_gives_way_to_the_slow_clients(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = KafkaSinkConfig.model_validate({"brokers": "127.0.0.1:1", "topic": "t"})
    fast = open_producer(config)
    assert isinstance(fast, NativeProducer)
    fast.close()
    library.cache_clear()

    monkeypatch.setattr(
        "headrace_connectors.kafka.librdkafka.native_library.layout_problem", lambda _: "len of a message"
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            slow = open_producer(config)
            assert isinstance(slow, ClientProducer)
            slow.close()
    said = [record.getMessage() for record in caplog.records if "memory layout" in record.getMessage()]
    assert len(said) == 1
    assert "len of a message" in said[0]
    assert "pip install 'confluent-kafka>=2.11,<2.17'" in said[0]


def test_a_library_that_opens_no_producer_is_unfit(found: ctypes.CDLL) -> None:
    class Refusing:
        def rd_kafka_new(self, _kind: int, _conf: int, text: Any, size: int) -> None:
            text.value = b"out of threads"[:size]

        def __getattr__(self, name: str) -> Any:
            return getattr(found, name)

    problem = layout_problem(Refusing())  # type: ignore[arg-type]
    assert problem == "librdkafka opens no producer: out of threads"
