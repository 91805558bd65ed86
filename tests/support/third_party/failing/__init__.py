"""Faults on order: `map` functions and a files sink that fail, or kill their process, once.

A test writes `<folder of $HEADRACE_TEST_FAULTS>/<place>` with what is to happen there; the first process that comes
to that place takes the file away and does it. Every visit is noted in `<place>.visits`: Spark's stage and partition,
and the process.

    raise       an error
    worker      this process, Spark's Python worker, is killed
    executor    the JVM that it belongs to is killed
    straggle    this process waits until another one comes to the same place, for the same task
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import polars as pl

from headrace.connect.publisher import Publisher, Share
from headrace.connect.registry import Connector
from headrace.connect.sink import SinkBatch, SinkContext
from headrace_connectors.files import FilesSinkConfig

FOLDER = "HEADRACE_TEST_FAULTS"
STRAGGLE_MAX_S = 600.0


def visit(place: str) -> None:
    """Whatever a test has ordered for this place."""
    # here: every slot of a test with connectors of third parties imports this module
    import psutil
    from pyspark import TaskContext

    folder = Path(os.environ[FOLDER])
    context = TaskContext.get()
    assert context is not None, "runs in a task"
    task = f"{context.stageId()}-{context.partitionId()}"
    with (folder / f"{place}.visits").open("a") as visits:
        visits.write(f"{task} {os.getpid()}\n")
    taken = folder / f"{place}.taken"
    try:
        (folder / place).rename(taken)
    except FileNotFoundError:
        return
    match taken.read_text():
        case "raise":
            raise RuntimeError(f"failed at {place}, as it was told")
        case "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        case "executor":
            jvm = next(each for each in psutil.Process().parents() if each.name() == "java")
            os.kill(jvm.pid, signal.SIGKILL)
            time.sleep(STRAGGLE_MAX_S)  # Spark's Python daemon ends this process as well
            os.kill(os.getpid(), signal.SIGKILL)
        case "straggle":
            _straggle(folder / f"{place}.visits", task)
        case other:
            raise AssertionError(f"nobody knows how to {other}")


def _straggle(visits: Path, task: str) -> None:
    deadline_s = time.monotonic() + STRAGGLE_MAX_S
    while all(f"{os.getpid()}" in line for line in visits.read_text().splitlines() if line.startswith(f"{task} ")):
        assert time.monotonic() < deadline_s, "nobody else came"
        time.sleep(0.02)


def first(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as they are; place `first`, from the third batch of a process on: some rows are through by then."""
    _batches.append(len(rows))
    if len(_batches) > 2:
        visit("first")
    return rows


_batches: list[int] = []


def second(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as they are; place `second`."""
    visit("second")
    return rows


def third(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as they are; place `third`."""
    visit("third")
    return rows


class FailingPublisher:
    """The files sink's publisher; places `open`, `middle` (rows are written, none is visible), `end` (all are)."""

    def __init__(self, inner: Publisher) -> None:
        self._inner = inner

    @property
    def published(self) -> int:
        """As the files sink's."""
        return self._inner.published

    def write(self, batch: SinkBatch) -> None:
        """As the files sink's."""
        self._inner.write(batch)

    def finish(self) -> None:
        """As the files sink's."""
        visit("middle")
        self._inner.finish()
        visit("end")

    def close(self) -> None:
        """As the files sink's."""
        self._inner.close()


class FailingFiles(FilesSinkConfig):
    """Files that are published with faults."""

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher:
        """The files sink's, with faults."""
        visit("open")
        return FailingPublisher(super().open_publisher(context, share))


CONNECTOR = Connector(
    name="failing_files",
    summary="Files, published with faults",
    sink=FailingFiles,
    example_sink="failing_files:\n  path: out\nformat: json\n",
)
