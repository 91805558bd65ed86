"""Where Spark's Python workers enter: polars must learn how many threads it has before it is loaded.

Parallelism comes from Spark's tasks. Nothing is imported here before that is settled; what is pickled for a task refers
to these functions only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.spark.order import JobOrder


class Shared(Protocol):
    """What Spark brings to every executor once, unpickled when it is asked for."""

    @property
    def value(self) -> JobOrder:
        """It."""
        ...


def level(shared: Shared, number: int, partition: int, arriving: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Runs one partition of a level: `headrace.spark.level_run`."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.spark.level_run import run_level

    return run_level(shared.value, number, partition, arriving)


def share(data: bytes) -> bytes:
    """Publishes one share: `headrace.spark.publish`."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.spark.publish import publish_in_task

    return publish_in_task(data)
