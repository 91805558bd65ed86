"""The librdkafka that the native clients may use: of a tested version, and with the memory layout that they read.

A library that fails a check is not used: producers and consumers then are confluent-kafka's own, with the same results
for more CPU. The reason is logged once for each process.
"""

from __future__ import annotations

import ctypes
from functools import cache

from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.layout_check import layout_problem
from headrace_connectors.kafka.librdkafka.tested_versions import CONFLUENT_KAFKA, is_tested, version_of, version_text


@cache
def library() -> ctypes.CDLL | None:
    """The library, or None where confluent-kafka's own clients have to do."""
    found = librdkafka.loaded()
    if found is None:
        return None
    problem = unfit(found)
    if problem is None:
        return found
    LOG.warning("%s: records are read and written one by one; pip install '%s'", problem, CONFLUENT_KAFKA)
    return None


def unfit(found: ctypes.CDLL) -> str | None:
    """Why a loaded library is not used, or None. The version comes first: the layout check calls into the library."""
    version = version_of(found.rd_kafka_version())
    if not is_tested(version):
        return f"librdkafka {version_text(version)} is not among the tested versions"
    problem = layout_problem(found)
    return None if problem is None else f"librdkafka {version_text(version)} has another memory layout: {problem}"
