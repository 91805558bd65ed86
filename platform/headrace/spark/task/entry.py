"""Where Spark's Python workers enter: polars must learn how many threads it has before it is loaded.

Parallelism comes from Spark's tasks. Nothing is imported here before that is settled; what is pickled for a task refers
to these functions only.
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
"""What the names of Spark's own archives begin with."""


class Shared(Protocol):
    """What Spark brings to every executor once, unpickled when it is asked for."""

    @property
    def value(self) -> JobOrder:
        """It."""
        ...


def level(shared: Shared, number: int, partition: int, arriving: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Runs one partition of a level: `headrace.spark.task.level_run`."""
    _enter()
    from headrace.spark.task.level_run import run_level

    return run_level(shared.value, number, partition, arriving)


def share(data: bytes) -> bytes:
    """Publishes one share: `headrace.spark.driver.publish_shares`."""
    _enter()
    from headrace.spark.driver.publish_shares import publish_in_task

    return publish_in_task(data)


def _enter() -> None:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # Before every task Spark's worker has all finders look again. Those of packages in pyspark.zip, which does not
    # change, each read its whole directory then: a quarter of a second of CPU for every task. New ones cost nothing.
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and PurePath(finder.archive).name.startswith(_SPARKS_OWN):
            del sys.path_importer_cache[path]
