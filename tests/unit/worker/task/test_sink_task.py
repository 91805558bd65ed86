"""The end of a chain: when rows are made durable, and when nothing may be written any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal

import polars as pl
import pytest

from headrace.connect.registry import format_named
from headrace.connect.row_check import Refusal, Refuse
from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.core.batch import O_MINOR, TS
from headrace.core.errors import DataError, ExternalError
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.core.types import Field, Primitive, Schema
from headrace.operators.operator import OnError
from headrace.plan.physical import FormatSpec, SinkSpec
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.lease import Lease
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.refused_rows import RefusedRows
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
    counters: Counter[str] = Counter()
    task = SinkTask(
        spec,
        open_writer=lambda _: writer,
        refused=RefusedRows(spec, (), counters),
        snapshots=snapshots,
        counters=counters,
        lease=lease,
    )
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


class Refusing(Log):
    """A sink whose writer refuses odd numbers."""

    @property
    def refuses(self) -> Literal["never", "in_write", "in_flush"]:
        return "in_write"


class RefusingLate(Log):
    """As `Refusing`; the writer refuses them when it is flushed."""

    @property
    def refuses(self) -> Literal["never", "in_write", "in_flush"]:
        return "in_flush"


class RefusingWriter(LogWriter):
    """Refuses odd numbers, in `write` or in `flush`."""

    def __init__(self, refuse: Refuse | None, *, late: bool) -> None:
        super().__init__()
        assert refuse is not None
        self._refuse, self._late = refuse, late
        self._kept: list[pl.DataFrame] = []

    def write(self, batch: SinkBatch) -> None:
        self._kept.append(batch.rows)
        if not self._late:
            self._store()

    def flush(self, epoch: int) -> Sequence[Committable]:
        self._store()
        return super().flush(epoch)

    def _store(self) -> None:
        for rows in self._kept:
            odd = (rows.get_column("x") % 2 == 1).arg_true().to_list()
            self._refuse(rows, dict.fromkeys(odd, Refusal("odd", "write even ones")))
            self.rows += rows.height - len(odd)
        self._kept.clear()


class Heard:
    """Receives an output `bad`."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def on_batch(self, batch: pl.DataFrame) -> None:
        self.events.append(batch.to_dicts())

    def on_signal(self, signal: Signal) -> None:
        self.events.append(signal)


def refusing(policy: OnError, *, late: bool) -> tuple[SinkTask, Heard, SubtaskSnapshots]:
    spec = SinkSpec("out", "log", RefusingLate() if late else Refusing(), None, SCHEMA, SCHEMA, None, on_error=policy)
    counters: Counter[str] = Counter()
    heard, snapshots = Heard(), SubtaskSnapshots("out", 0, Reports())
    refused = RefusedRows(spec, (heard,), counters)
    task = SinkTask(
        spec,
        open_writer=lambda refuse: RefusingWriter(refuse, late=late),
        refused=refused,
        snapshots=snapshots,
        counters=counters,
    )
    return task, heard, snapshots


@pytest.mark.parametrize("late", [False, True])
def test_refused_rows_leave_before_the_barrier_with_their_hidden_columns(late: bool) -> None:
    task, heard, snapshots = refusing(OnError.DIVERT, late=late)
    task.on_signal(Watermark(7))
    task.on_batch(batch(4).with_columns(pl.lit(5).alias(O_MINOR)))
    assert task.counters["rows_out"] == (0 if late else 2)
    task.on_signal(Barrier(1))
    snapshots.complete(1)
    assert heard.events == [
        Watermark(7),
        [{"x": x, "reason": "odd", TS: 0, O_MINOR: 5} for x in (1, 3)],
        Barrier(1),
    ]
    assert task.counters == {"rows_in": 4, "rows_out": 2, "bad": 2}


def test_skipped_rows_are_counted_and_go_nowhere() -> None:
    task, heard, _ = refusing(OnError.SKIP, late=False)
    task.on_batch(batch(4))
    assert heard.events == []
    assert task.counters == {"rows_in": 4, "rows_out": 2, "bad": 2}


DAYS = Schema((Field("day", Primitive.DATE), Field("n", Primitive.INT64)))


class Messages(Refusing):
    """A sink of messages, whose writer takes all of them."""

    takes: ClassVar[Literal["messages", "rows"]] = "messages"


class MessageWriter(LogWriter):
    """Remembers messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str | None] = []

    def write(self, batch: SinkBatch) -> None:
        assert batch.messages is not None
        self.messages += [None if each is None else str(each) for each in batch.messages.to_pylist()]


@pytest.mark.parametrize(
    ("policy", "implicit", "messages", "counters"),
    [
        (OnError.SKIP, False, ['{"day":"1970-01-02","n":0}'], {"rows_in": 2, "rows_out": 1, "bad": 1}),
        # a dead letter without its content: its headers are columns that are not encoded
        (OnError.FAIL, True, ['{"day":"1970-01-02","n":0}', None], {"rows_in": 2, "rows_out": 2}),
    ],
)
def test_a_row_that_the_format_cannot_write(
    policy: OnError, implicit: bool, messages: list[str | None], counters: dict[str, int]
) -> None:
    form = FormatSpec("json", format_named("json").config())
    spec = SinkSpec("out", "log", Messages(), form, DAYS, DAYS, None, implicit=implicit, on_error=policy)
    counted: Counter[str] = Counter()
    writer = MessageWriter()
    task = SinkTask(
        spec,
        open_writer=lambda _: writer,
        refused=RefusedRows(spec, (), counted),
        snapshots=SubtaskSnapshots("out", 0, Reports()),
        counters=counted,
    )
    days = pl.Series("day", [1, 95_026_237], dtype=pl.Int32).cast(pl.Date)
    task.on_batch(pl.DataFrame([days, pl.Series("n", [0, 1]), pl.Series(TS, [0, 0])]))
    assert (writer.messages, counted) == (messages, counters)


def test_a_dead_letter_that_is_refused_without_its_content_fails_the_job() -> None:
    spec = SinkSpec("out.bad", "log", Refusing(), None, SCHEMA, SCHEMA, None, implicit=True)

    class Never(LogWriter):
        def __init__(self, refuse: Refuse | None) -> None:
            super().__init__()
            assert refuse is not None
            self._refuse = refuse

        def write(self, batch: SinkBatch) -> None:
            self._refuse(batch.rows, {0: Refusal("no", "never")})

    counters: Counter[str] = Counter()
    task = SinkTask(
        spec,
        open_writer=Never,
        refused=RefusedRows(spec, (), counters),
        snapshots=SubtaskSnapshots("out", 0, Reports()),
        counters=counters,
    )
    with pytest.raises(DataError, match=r"sink 'out.bad': no: .'x': None"):
        task.on_batch(batch(1))
