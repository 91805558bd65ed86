"""The entry points of Spark's Python workers: polars reads its number of threads when it is imported, so it is set here
first.

Parallelism comes from Spark's tasks. This module imports nothing before that, and functions pickled for a task are only
these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol
from zipimport import zipimporter

if TYPE_CHECKING:
    from headrace.spark.task.order import JobOrder


_SPARKS_OWN = ("pyspark", "py4j")
"""Prefixes of the names of Spark's own archives."""


class Shared(Protocol):
    """A value that Spark sends to every executor once, unpickled on use."""

    @property
    def value(self) -> JobOrder:
        """The value."""
        ...


def level(shared: Shared, number: int, partition: int, arriving: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Runs one partition of a level: `headrace.spark.task.level_run`."""
    _enter()
    from headrace.spark.task.level_run import run_level

    return run_level(shared.value, number, partition, arriving)


def share(data: bytes) -> bytes:
    """Publishes one share: `headrace.spark.task.publish_shares`."""
    _enter()
    from headrace.spark.task.publish_shares import publish_in_task

    return publish_in_task(data)


def _enter() -> None:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # before every task Spark's worker invalidates all import caches. The finders of packages in pyspark.zip, which
    # never changes, then each read its whole directory: a quarter of a second of CPU for every task. New finders cost
    # nothing.
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and PurePath(finder.archive).name.startswith(_SPARKS_OWN):
            del sys.path_importer_cache[path]
