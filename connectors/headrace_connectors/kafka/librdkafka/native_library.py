"""The librdkafka that the native clients may use: a tested version with the memory layout that they read.

If the library fails a check, sinks and sources use confluent-kafka's own clients: same results, more CPU. The reason is
logged once per process.
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
