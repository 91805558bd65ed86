"""Runs one partition of one level, for any back end: bytes in, (partition of the next level, bytes) out.

Errors leave a Spark task as text that the driver can parse (`headrace.spark.task.failures`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.spark.levels.envelope import Envelope, destination
from headrace.spark.levels.levels import levels_of
from headrace.spark.task.failures import task_failures
from headrace.spark.task.open_task import open_task
from headrace.spark.task.order import JobOrder
from headrace.spark.task.plan_cache import known_plan
from headrace.spark.task.range_task import run_range
from headrace.spark.task.reading_task import run_reading
from headrace.worker.slot.user_code import put_on_path

Blobs = Iterator[tuple[int, bytes]]


def run_level(order: JobOrder, level: int, partition: int, arriving: Iterable[bytes]) -> Blobs:
    """Runs the task in this partition. Raises TaskFailedError for every error."""
    with task_failures():
        yield from _run(order, level, partition, arriving)


def _run(order: JobOrder, level: int, partition: int, arriving: Iterable[bytes]) -> Blobs:
    put_on_path([entry for entry in order.python_path if entry and Path(entry).exists()])
    plan = known_plan(order.pipeline, order.plan_hash)
    levels = levels_of(plan, {task: len(shares) for task, shares in order.shares.items()})
    last = level + 1 == len(levels.widths)
    passing: list[bytes] = []

    def mine() -> Iterator[Envelope]:
        for data in arriving:
            if destination(data)[0] == level:
                yield Envelope.unpack(data)
            else:
                # for a later level: it must be sent on, whatever this task does
                passing.append(data)

    def onward(data: bytes) -> tuple[int, bytes]:
        to_level, to_partition = destination(data)
        # the last level's blobs are collected by the driver: their partition means nothing
        return 0 if last else levels.next_hop(level, to_level=to_level, to_partition=to_partition), data

    name, index = levels.at(level, partition)
    task = open_task(order, plan, levels, name, index)
    for envelope in run_range(task) if level == 0 else run_reading(task, mine()):
        yield onward(envelope.pack())
        while passing:
            yield onward(passing.pop())
    while passing:
        yield onward(passing.pop())
