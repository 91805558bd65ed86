"""The end of a chain: when rows are made durable, and when nothing may be written any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal

import polars as pl
import pytest

from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.core.batch import TS
from headrace.core.errors import ExternalError
from headrace.core.signals import Barrier, EndOfInput, Watermark
from headrace.core.types import Field, Primitive, Schema
from headrace.plan.physical import SinkSpec
from headrace.worker.slot.lease import Lease
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.control import SubtaskSnapshot
from headrace.worker.task.sink_task import SinkTask

SCHEMA = Schema((Field("x", Primitive.INT64),))


class Log(SinkConfig):
    """A sink that the test writes to itself."""

    takes: ClassVar[Literal["messages", "rows"]] = "rows"

    def open_writer(self, context: SinkContext) -> Writer:
        raise AssertionError("the test opens its writer")


class LogWriter:
    """Remembers what was written and flushed."""

    def __init__(self) -> None:
        self.rows = 0
        self.flushed: list[tuple[int, int]] = []

    def write(self, batch: SinkBatch) -> None:
        self.rows += len(batch)

    def flush(self, epoch: int) -> Sequence[Committable]:
        self.flushed.append((epoch, self.rows))
        return [Committable("out", 0, epoch, {"rows": self.rows})]

    def close(self) -> None: ...


class Reports:
    def __init__(self) -> None:
        self.snapshots: list[SubtaskSnapshot] = []

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        self.snapshots.append(snapshot)

    def input_ended(self, task: str, subtask: int) -> None: ...


def opened(lease: Lease | None = None) -> tuple[SinkTask, LogWriter, SubtaskSnapshots, Reports]:
    writer, reports = LogWriter(), Reports()
    snapshots = SubtaskSnapshots("out", 0, reports)
    spec = SinkSpec("out", "log", Log(), None, SCHEMA, SCHEMA, None)
    task = SinkTask(spec, writer=writer, encoder=None, snapshots=snapshots, counters=Counter(), lease=lease)
    return task, writer, snapshots, reports


def batch(rows: int) -> pl.DataFrame:
    return pl.DataFrame({"x": list(range(rows)), TS: [0] * rows})


def test_rows_are_durable_at_barriers_and_the_end_of_input_makes_none_so() -> None:
    task, writer, snapshots, reports = opened()
    task.on_batch(batch(3))
    task.on_signal(Watermark(5))
    assert writer.flushed == []
    task.on_signal(Barrier(1))
    snapshots.complete(1)
    task.on_batch(batch(2))
    task.on_signal(EndOfInput())
    assert writer.flushed == [(1, 3)]
    task.on_signal(Barrier(2))
    snapshots.complete(2)
    assert writer.flushed == [(1, 3), (2, 5)]
    assert [each.committables[0].payload for each in reports.snapshots] == [{"rows": 3}, {"rows": 5}]
    assert task.counters == {"rows_in": 5, "rows_out": 5}


def test_nothing_is_written_once_the_lease_has_run_out() -> None:
    task, writer, _, _ = opened(Lease(0))
    with pytest.raises(ExternalError, match="lease"):
        task.on_batch(batch(1))
    with pytest.raises(ExternalError, match="lease"):
        task.on_signal(Barrier(1))
    assert (writer.rows, writer.flushed) == (0, [])


def test_a_lease_that_holds_lets_rows_through() -> None:
    lease = Lease(600_000)
    lease.renew(time.monotonic_ns())
    task, writer, _, _ = opened(lease)
    task.on_batch(batch(1))
    assert writer.rows == 1
