"""The librdkafka that the native clients may use: a tested version with the memory layout that they read.

If the library fails a check, sinks and sources use confluent-kafka's own clients: same results, more CPU. The reason is
logged once per process.

The layout check needs no broker. The batch call queues two known records in a producer without brokers, and a purge
fails them. The delivery reports then contain `rd_kafka_message_t` as the library writes it, the same struct that a
consumer receives. Numbers are compared before any pointer is followed, so a library with another layout fails the check
without a crash. The check lasts some milliseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
from confluent_kafka import KafkaError

from headrace.core.errors import ExternalError
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.functions import DELIVERY_CALLBACK, MESSAGE
from headrace_connectors.kafka.librdkafka.tested_versions import CONFLUENT_KAFKA, is_tested, version_of, version_text

_TOPIC = b"layout"
_PARTITION = 5
_PAYLOAD, _KEY = b"seventeen letters", b"eleven here"
_NO_OFFSET = -1001
"""`RD_KAFKA_OFFSET_INVALID`: the offset of a record that was never sent."""
_PRIVATE = (0x1122334455667788, 0x2233445566778899)
"""One for each record; the library returns them unchanged."""
_POLLS_MAX = 100
_POLL_MS = 20
_OFFSET = 1 << 40
"""Above 32 bits, so that a field of the wrong width shows."""


@cache
def library() -> ctypes.CDLL | None:
    """The library, or None: use confluent-kafka's own clients."""
    found = librdkafka.loaded()
    if found is None:
        return None
    problem = unfit(found)
    if problem is None:
        return found
    LOG.warning("%s: records are read and written one by one; pip install '%s'", problem, CONFLUENT_KAFKA)
    return None


def unfit(found: ctypes.CDLL) -> str | None:
    """The reason to reject a loaded library, or None. Checks the version first: the layout check calls the library."""
    version = version_of(found.rd_kafka_version())
    if not is_tested(version):
        return f"librdkafka {version_text(version)} is not among the tested versions"
    problem = layout_problem(found)
    return None if problem is None else f"librdkafka {version_text(version)} has another memory layout: {problem}"


@dataclass(frozen=True, slots=True)
class _Report:
    """The fields of a delivery report, read with the layout of MESSAGE while the report was valid."""

    numbers: dict[str, int]
    key: bytes | None


def layout_problem(library: ctypes.CDLL) -> str | None:
    """The first struct or field with another layout; None: the layout is the declared one."""
    return _partition_list_problem(library) or _message_problem(library)


def _partition_list_problem(library: ctypes.CDLL) -> str | None:
    listed = library.rd_kafka_topic_partition_list_new(2)
    try:
        library.rd_kafka_topic_partition_list_add(listed, _TOPIC, 0)
        added = library.rd_kafka_topic_partition_list_add(listed, _TOPIC, _PARTITION)
        library.rd_kafka_topic_partition_list_set_offset(listed, _TOPIC, _PARTITION, _OFFSET)
        head, item = listed.contents, added.contents
        if (head.count, head.size) != (2, 2):
            return "the head of a list of partitions"
        # the distance from the first item to the second is the size of an item
        if ctypes.addressof(head.items[1]) != ctypes.addressof(item):
            return "the size of a partition in a list"
        if (item.partition, item.offset, item.err) != (_PARTITION, _OFFSET, 0) or item.topic != _TOPIC:
            return "a partition in a list"
        return None
    finally:
        library.rd_kafka_topic_partition_list_destroy(listed)


def _message_problem(library: ctypes.CDLL) -> str | None:
    payload = ctypes.create_string_buffer(_PAYLOAD, len(_PAYLOAD))
    key = ctypes.create_string_buffer(_KEY, len(_KEY))
    sent = np.zeros(2, MESSAGE)
    sent["partition"], sent["private"] = _PARTITION, _PRIVATE
    # the second record has neither value nor key
    sent["payload"][0], sent["len"][0] = ctypes.addressof(payload), len(_PAYLOAD)
    sent["key"][0], sent["key_len"][0] = ctypes.addressof(key), len(_KEY)
    try:
        reports = _reported(library, sent)
    except ExternalError as error:
        return error.message
    if len(reports) != len(sent):
        return f"{len(sent)} records were queued, {len(reports)} reported"
    for index, report in enumerate(reports):
        if differing := [name for name, number in _expected(sent, index).items() if report.numbers[name] != number]:
            return f"{differing[0]} of rd_kafka_message_t"
    return None if [report.key for report in reports] == [_KEY, None] else "key of rd_kafka_message_t"


def _expected(sent: np.ndarray, index: int) -> dict[str, int]:
    fields = ("payload", "len", "key_len", "partition", "private")
    numbers = {name: int(sent[name][index]) for name in fields}
    return numbers | {"err": int(KafkaError._PURGE_QUEUE), "offset": _NO_OFFSET}


def _reported(library: ctypes.CDLL, sent: np.ndarray) -> list[_Report]:
    """The delivery reports of records that are queued in a producer without brokers, in order."""
    reports: list[_Report] = []

    def on_report(_handle: int, message: int, _opaque: int) -> None:
        reports.append(_read(message))

    callback = DELIVERY_CALLBACK(on_report)
    with _producer(library, callback) as handle:
        topic = library.rd_kafka_topic_new(handle, _TOPIC, None)
        try:
            # values are not copied, so their addresses come back
            library.rd_kafka_produce_batch(topic, 0, librdkafka.PARTITION_OF_EACH, sent.ctypes.data, len(sent))
            library.rd_kafka_purge(handle, librdkafka.PURGE_QUEUED)
            for _ in range(_POLLS_MAX):
                if len(reports) >= len(sent):
                    break
                library.rd_kafka_poll(handle, _POLL_MS)
        finally:
            library.rd_kafka_topic_destroy(topic)
    return reports


def _read(message: int) -> _Report:
    (fields,) = np.frombuffer(ctypes.string_at(message, MESSAGE.itemsize), MESSAGE)
    numbers = {name: int(fields[name]) for name in fields.dtype.names if not name.startswith("pad")}
    # the pointer is followed only if the length beside it is the expected one
    known = numbers["key"] and numbers["key_len"] == len(_KEY)
    return _Report(numbers, ctypes.string_at(numbers["key"], len(_KEY)) if known else None)


@contextmanager
def _producer(library: ctypes.CDLL, callback: ctypes._FuncPointer) -> Iterator[int]:
    text = ctypes.create_string_buffer(librdkafka.ERROR_TEXT_BYTES)
    conf = library.rd_kafka_conf_new()
    # without brokers the producer connects to nothing, and has nothing worth logging
    library.rd_kafka_conf_set(conf, b"log_level", b"0", text, len(text))
    library.rd_kafka_conf_set_dr_msg_cb(conf, callback)
    handle = library.rd_kafka_new(librdkafka.PRODUCER, conf, text, len(text))
    if not handle:
        raise ExternalError(f"librdkafka opens no producer: {text.value.decode(errors='replace')}")
    try:
        yield handle
    finally:
        library.rd_kafka_destroy(handle)
