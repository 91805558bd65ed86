"""An exchange without Spark: levels run in this process, and everything that Spark may do to a run is done to it.

Blobs arrive in random order. A task may be tried twice, with batches of another size and less memory, and each of those
who read from it gets the blobs of the one try or of the other: so it is where an executor was lost after some had
fetched from it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.core.errors import ExternalError
from headrace.execution.planning import JobPlans
from headrace.spark.driver.exchange import Exchange
from headrace.spark.task.level_run import run_level
from headrace.spark.task.order import STATE_BYTES_MAX, JobOrder
from headrace.spark.task.publish_shares import publish_in_task

Item = TypeVar("Item")
BATCH_ROWS = (1_000, 64, 7)
STATE_BYTES = (STATE_BYTES_MAX, STATE_BYTES_MAX, 30_000, 1)
"""Rows of a batch, and bytes that a task may hold in memory."""
Blobs = dict[int, list[bytes]]
"""Partition of the next level -> what goes there."""


class LocalExchange(Exchange):
    """Runs levels here. `retried`: share of the tasks that are tried twice; `outages`: share of the calls that fail for
    a reason that passes, when their work is done or before; `parallelism`: what it says it has."""

    def __init__(self, seed: int, *, parallelism: int = 2, retried: float = 0.3, outages: float = 0.0) -> None:
        self._draw = random.Random(seed)
        self._outages = outages
        self._parallelism = parallelism
        self._retried = retried
        self.published = 0
        """Shares that were published."""

    @property
    def parallelism(self) -> int:
        """As it was told."""
        return self._parallelism

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """All levels, one task after the other."""
        self._maybe_fail()
        orders = [self._with_memory(each) for each in (order, _with_batches(order, self._draw.choice(BATCH_ROWS)))]
        arriving: Blobs = {}
        for level, width in enumerate(widths):
            leaving: defaultdict[int, list[bytes]] = defaultdict(list)
            for partition in self._shuffled(range(width)):
                tries = self._tried(orders, level, partition, arriving.get(partition, []))
                for target in sorted({target for each in tries for target in each}):
                    leaving[target] += self._draw.choice(tries).get(target, [])
            arriving = leaving
        self._maybe_fail()
        return self._shuffled(arriving[0])

    def _with_memory(self, order: JobOrder) -> JobOrder:
        return replace(order, state_bytes_max=self._draw.choice(STATE_BYTES))

    def _tried(self, orders: Sequence[JobOrder], level: int, partition: int, blobs: Sequence[bytes]) -> list[Blobs]:
        count = 2 if self._draw.random() < self._retried else 1
        chosen = self._draw.sample(orders, count)
        return [self._once(order, level, partition, self._shuffled(blobs)) for order in chosen]

    def _once(self, order: JobOrder, level: int, partition: int, blobs: Sequence[bytes]) -> Blobs:
        leaving: Blobs = {}
        for target, data in run_level(order, level, partition, blobs):
            leaving.setdefault(target, []).append(data)
        return leaving

    def each(self, orders: Sequence[bytes]) -> None:
        """One share after the other; some a second time, which must change nothing."""
        for order in self._shuffled(orders):
            self._maybe_fail()
            publish_in_task(order)
            if self._draw.random() < self._retried:
                publish_in_task(order)
            self.published += 1
        self._maybe_fail()

    def _maybe_fail(self) -> None:
        if self._draw.random() < self._outages:
            raise ExternalError("brokers or executors are away", retry=True)

    def _shuffled(self, items: Sequence[Item]) -> list[Item]:
        mixed = list(items)
        self._draw.shuffle(mixed)
        return mixed


def _with_batches(order: JobOrder, rows: int) -> JobOrder:
    """The order as a task with batches of another size gets it: its plan is another one, its results are not."""
    document = {**order.pipeline, "batch": {**order.pipeline.get("batch", {}), "max_rows": rows}}
    parallelism = int(document.get("parallelism", 1))
    plans = JobPlans(document)
    return replace(order, pipeline=plans.file_form(parallelism), plan_hash=plans.facts(parallelism).plan_hash)
