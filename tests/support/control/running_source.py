"""A source task that runs in a thread over a log in memory, with what it sends and reports."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import polars as pl

from headrace.connect.format import UnknownIds
from headrace.connect.source import MessageBatch, Polled, RowBatch, Run, Split, SplitId
from headrace.core.batch import TS
from headrace.core.clock import Clock, SystemClock
from headrace.core.signals import TIME_MAX, Element, Signal, Watermark
from headrace.core.source_state import SourceState
from headrace.core.types import schema_of
from headrace.exchange.mailbox import TaskCancelledError
from headrace.operators.operator import OnError
from headrace.plan.physical import RowTime, SourceSpec
from headrace.worker.control import (
    Assign,
    AssignedSplit,
    Command,
    Finish,
    SubtaskSnapshot,
)
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.ingest import Ingest
from headrace.worker.task.read_ahead import ReadAhead
from headrace.worker.task.source_progress import SourceProgress
from headrace.worker.task.source_task import SourceTask, SourceTiming
from support.control.scripted import SCHEMA, Script, ScriptedSource, frame
from support.processes.running import WAIT_SECONDS, wait_until

P0, P1 = SplitId("t", 0), SplitId("t", 1)


class LogReader:
    """Gives one row per poll, of the partition that has given fewest; partition n has the times `log[n]`."""

    def __init__(self, log: Sequence[Sequence[int]], *, ends: bool) -> None:
        self.log, self.ends = log, ends
        self.places: dict[SplitId, int] = {}
        self.paused: set[SplitId] = set()
        self.asked: list[str] = []
        self.committed: list[Mapping[SplitId, int]] = []
        self.given: list[int] = []
        self.lag: dict[SplitId, int] = {}
        self.polls = 0
        self.waits_ms: list[int] = []
        """The timeout of each poll."""
        self.inside: Callable[[int], None] = lambda _: None
        """Called in each poll with its number, from 1, before it reads."""

    def assign(self, splits: Sequence[Split]) -> None:
        self.asked.append(f"assign {' '.join(f'{split.id}@{split.start}' for split in splits)}")
        self.places |= {split.id: split.start for split in splits}

    def poll(self, timeout_ms: int) -> Polled:
        self.polls += 1
        self.waits_ms.append(timeout_ms)
        self.inside(self.polls)
        over = {split for split, at in self.places.items() if at >= len(self.log[split.partition])}
        ready = sorted((at, split) for split, at in self.places.items() if split not in over | self.paused)
        finished = frozenset(over) if self.ends else frozenset[SplitId]()
        if not ready:
            return Polled(at_end=frozenset(over), finished=finished, lag=self.lag)
        at, split = ready[0]
        ts = self.log[split.partition][at]
        self.places[split] = at + 1
        self.given.append(ts)
        rows = RowBatch(frame([(ts, at)]), np.array([at], dtype=np.int64), (Run(split, 0, 1),))
        return Polled(rows, {split: at + 1}, frozenset(over), finished, self.lag)

    def pause(self, splits: Sequence[SplitId]) -> None:
        self.paused |= set(splits)
        self.asked.append(f"pause {' '.join(map(str, splits))}")

    def resume(self, splits: Sequence[SplitId]) -> None:
        self.paused -= set(splits)
        self.asked.append(f"resume {' '.join(map(str, splits))}")

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        self.committed.append(dict(positions))

    def close(self) -> None: ...


class Sent:
    """What came out of the source, and what it reported."""

    def __init__(self) -> None:
        self.elements: list[Element] = []
        self.snapshots: list[SubtaskSnapshot] = []
        self.ended = self.batches = 0
        self.on_rows: Callable[[int], None] = lambda _: None
        """The chain: called with the number of each batch, from 1."""

    def on_batch(self, batch: pl.DataFrame) -> None:
        self.elements.append(batch)
        self.batches += 1
        self.on_rows(self.batches)

    def on_signal(self, signal: Signal) -> None:
        self.elements.append(signal)

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        self.snapshots.append(snapshot)

    def input_ended(self, task: str, subtask: int) -> None:
        self.ended += 1

    @property
    def signals(self) -> list[Element]:
        """All but rows and finite watermarks."""
        return [
            element
            for element in self.elements
            if not isinstance(element, pl.DataFrame) and not (isinstance(element, Watermark) and element.ts < TIME_MAX)
        ]

    @property
    def times(self) -> list[int]:
        return [ts for each in self.elements if isinstance(each, pl.DataFrame) for ts in each.get_column(TS).to_list()]


class Nobody:
    def on_batch(self, batch: pl.DataFrame) -> None: ...

    def on_signal(self, signal: Signal) -> None: ...


class WaitingIngest(Ingest):
    """An ingest whose decoder does not know batches yet: those with these event times."""

    unknown: frozenset[int] = frozenset()

    def on_batch(self, batch: MessageBatch | RowBatch) -> UnknownIds | None:
        assert isinstance(batch, RowBatch)
        if self.unknown & set(batch.rows.get_column("ts").dt.epoch("ms").to_list()):
            return UnknownIds(("7",), "schema 7")
        return super().on_batch(batch)


class Running:
    """A source task in a thread of its own."""

    ahead = False
    """Whether it is polled ahead: every batch has one row, as many as a poll may return."""

    def __init__(
        self,
        log: Sequence[Sequence[int]],
        *,
        ends: bool = True,
        drift_ms: int | None = None,
        idle_ms: int | None = None,
        clock: Clock | None = None,
        hand_over: bool = False,
        interval_ms: int = 1,
    ) -> None:
        self.reader, self.sent = LogReader(log, ends=ends), Sent()
        spec = SourceSpec(
            node="src",
            connector="scripted",
            config=ScriptedSource(script=Script([], 0)),
            format=None,
            schema=schema_of(SCHEMA),
            output=schema_of(SCHEMA),
            metadata=(),
            time=RowTime("ts", 0, idle_ms, drift_ms),
            on_error=OnError.FAIL,
            order_columns=False,
        )
        time, clock = SourceProgress("src", 0, hand_over=hand_over), clock or SystemClock()
        self.ingest = WaitingIngest(spec, None, time=time, rows=self.sent, bad=Nobody(), counters=Counter())
        self.task = SourceTask(
            spec,
            reader=ReadAhead(self.reader, clock, name="src-0-ahead", rows_max=1, allowed=self.ahead),
            ingest=self.ingest,
            time=time,
            clock=clock,
            timing=SourceTiming(poll_ms=1, watermark_interval_ms=interval_ms),
            snapshots=SubtaskSnapshots("src", 0, self.sent),
            hand_over=hand_over,
        )
        self.raised: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.task.run()
        except (TaskCancelledError, RuntimeError) as error:
            self.raised = error
        self.task.leave()

    def tell(self, *commands: Command) -> None:
        for command in commands:
            self.task.tell(command)

    def sees(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, "the source to do so")

    def finish(self) -> None:
        self.tell(Finish())
        self.thread.join(WAIT_SECONDS)
        assert not self.thread.is_alive()

    def once_ahead(self, commands: Callable[[], None]) -> None:
        """Calls it while the chain works on the first batch, and the second one was polled, if polls run ahead."""

        def on_rows(batch: int) -> None:
            if batch == 1:
                self.sees(lambda: len(self.reader.given) == 1 + self.ahead)
                commands()

        self.sent.on_rows = on_rows

    def state(self) -> SourceState:
        """The source in the only snapshot."""
        (snapshot,) = self.sent.snapshots
        assert snapshot.source is not None
        return snapshot.source[1]


@contextmanager
def running(
    log: Sequence[Sequence[int]],
    *,
    ends: bool = True,
    drift_ms: int | None = None,
    idle_ms: int | None = None,
    clock: Clock | None = None,
    hand_over: bool = False,
    interval_ms: int = 1,
) -> Iterator[Running]:
    source = Running(
        log, ends=ends, drift_ms=drift_ms, idle_ms=idle_ms, clock=clock, hand_over=hand_over, interval_ms=interval_ms
    )
    source.thread.start()
    try:
        yield source
    finally:
        source.task.cancel()
        source.thread.join(WAIT_SECONDS)


def assign(*splits: Split, final: bool = True) -> Assign:
    return Assign(tuple(AssignedSplit(split) for split in splits), final)
