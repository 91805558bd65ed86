"""The loop of a subtask behind a mailbox: what it reports, and when it is left."""

from __future__ import annotations

import threading
from collections import Counter

import polars as pl
import pytest

from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.mailbox import ChannelBounds, Mailbox, TaskCancelledError
from headrace.operators.chain import Link
from headrace.operators.operator import Collector, Stateless
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.subtask import Subtask
from support.processes.running import WAIT_SECONDS, wait_until


class Reports:
    """What a subtask says."""

    def __init__(self) -> None:
        self.snapshots: list[SubtaskSnapshot] = []
        self.ended = 0

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        self.snapshots.append(snapshot)

    def input_ended(self, task: str, subtask: int) -> None:
        self.ended += 1


class Count(Stateless):
    """Passes rows on and remembers how many there were."""

    def __init__(self) -> None:
        self.rows = 0

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        self.rows += batch.height
        out.emit(batch)

    def snapshot(self) -> list[StateSnapshot]:
        chunk = Chunk(self.rows, pl.DataFrame({"n": [self.rows]}))
        return [StateSnapshot("count", StateKind.LIST, (), (chunk,))]


class Below:
    """What comes out of the chain."""

    def __init__(self) -> None:
        self.signals: list[Signal] = []

    def on_batch(self, batch: pl.DataFrame) -> None: ...

    def on_signal(self, signal: Signal) -> None:
        self.signals.append(signal)


def opened(channels: int) -> tuple[Mailbox, Subtask, Reports, Below]:
    reports, below = Reports(), Below()
    snapshots = SubtaskSnapshots("t", 1, reports)
    mailbox = Mailbox((0,) * channels, ChannelBounds(), merge_rows_max=100)
    link = Link(Count(), {"": [below]}, Counter(), node="t", states=snapshots)
    return mailbox, Subtask(mailbox, link.inputs(1), snapshots), reports, below


def test_barriers_pass_before_and_after_the_end_of_input_until_it_is_told_to_finish() -> None:
    mailbox, subtask, reports, below = opened(2)
    thread = threading.Thread(target=subtask.run)
    thread.start()
    try:
        batch = pl.DataFrame({"x": [1, 2]})
        for channel in range(2):
            mailbox.put(channel, batch)
            mailbox.put(channel, Barrier(1))
            mailbox.put(channel, batch)
            mailbox.put(channel, Watermark(7))
            mailbox.put(channel, EndOfInput())
            mailbox.put(channel, Barrier(2))
        wait_until(lambda: len(reports.snapshots) == 2, "no second snapshot")
        assert thread.is_alive()
    finally:
        subtask.finish()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert reports.ended == 1
    counts = [(each.epoch, each.states[0][1].chunks[0].frame.item()) for each in reports.snapshots]
    assert counts == [(1, 4), (2, 8)]
    assert [(each.task, each.subtask, each.states[0][0]) for each in reports.snapshots] == [("t", 1, "t")] * 2
    assert below.signals == [Barrier(1), Watermark(7), EndOfInput(), Barrier(2)]


def test_a_cancelled_mailbox_makes_it_leave() -> None:
    mailbox, subtask, reports, _ = opened(1)
    mailbox.cancel()
    with pytest.raises(TaskCancelledError):
        subtask.run()
    assert reports.snapshots == []


def test_the_time_that_it_waits_is_counted_while_it_waits() -> None:
    mailbox, subtask, _, _ = opened(1)
    thread = threading.Thread(target=subtask.run)
    thread.start()
    try:
        wait_until(lambda: subtask.waited.ms > 0, "no wait is counted")
    finally:
        subtask.finish()
        thread.join(WAIT_SECONDS)
    assert mailbox.rows_queued == 0
