"""When an epoch of a local job begins, when it is complete, and when it is the last one."""

from __future__ import annotations

import threading
import time

from headrace.connect.sink import Committable
from headrace.local.engine.subtask_epochs import InputEnded, Reports, SubtaskEpochs
from headrace.worker.control import SubtaskSnapshot
from support.processes.running import WAIT_SECONDS

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def epochs(*subtasks: tuple[str, int], interval_ms: int | None = 1_000) -> SubtaskEpochs:
    return SubtaskEpochs(subtasks, interval_ms, now_ms=0)


def snapshot(subtask: tuple[str, int], epoch: int, *committables: Committable) -> SubtaskSnapshot:
    return SubtaskSnapshot(*subtask, epoch, committables=committables)


def committable(sink: str, epoch: int) -> Committable:
    return Committable(sink, 0, epoch, {"left": "open"})


def test_an_epoch_is_complete_once_its_barrier_has_passed_every_subtask() -> None:
    mine = epochs(A0, A1, B0)
    assert mine.begin_due(999, stopping=False) is None
    assert mine.begin_due(1_000, stopping=False) == 1
    assert mine.waiting == {A0, A1, B0}
    mine.take(snapshot(A0, 1, committable("out", 1)))
    mine.take(snapshot(A1, 1))
    assert mine.complete is None
    assert mine.waiting == {B0}
    mine.take(snapshot(B0, 1))
    pending = mine.complete
    assert pending is not None
    assert [item.committable() for item in pending.committables] == [committable("out", 1)]


def test_the_next_epoch_begins_when_the_one_before_is_committed_without_what_that_left() -> None:
    mine = epochs(A0)
    assert mine.begin_due(1_000, stopping=False) == 1
    mine.take(snapshot(A0, 1, committable("out", 1)))
    assert mine.begin_due(2_000, stopping=False) is None
    mine.committed(2_500)
    assert mine.complete is None
    assert mine.begin_due(2_500, stopping=False) == 2
    mine.take(snapshot(A0, 2))
    assert mine.complete is not None and mine.complete.committables == ()


def test_a_subtask_whose_input_has_ended_is_waited_for_as_well() -> None:
    mine = epochs(A0, B0)
    mine.take(InputEnded(*A0))
    assert mine.input_left == {B0}
    assert mine.begin_due(1_000, stopping=False) == 1
    mine.take(snapshot(B0, 1))
    assert mine.complete is None
    mine.take(snapshot(A0, 1))
    assert mine.complete is not None
    assert not mine.last_begun


def test_the_last_epoch_begins_at_once_when_no_input_is_left_and_nothing_follows_it() -> None:
    mine = epochs(A0, B0, interval_ms=None)
    assert mine.begin_due(1_000_000, stopping=False) is None
    mine.take(InputEnded(*A0))
    mine.take(InputEnded(*B0))
    assert mine.begin_due(1_000_001, stopping=False) == 1
    assert mine.last_begun
    mine.take(snapshot(A0, 1))
    mine.take(snapshot(B0, 1))
    mine.committed(1_000_002)
    assert mine.begin_due(2_000_000, stopping=False) is None


def test_a_job_that_stops_begins_no_periodic_epoch_but_the_last_one() -> None:
    mine = epochs(A0)
    assert mine.begin_due(5_000, stopping=True) is None
    mine.take(InputEnded(*A0))
    assert mine.begin_due(5_000, stopping=True) == 1
    assert mine.last_begun


def test_everything_that_has_come_is_taken_at_once_and_in_order() -> None:
    reports = Reports()
    reports.snapshotted(SubtaskSnapshot("a", 0, 1))
    reports.wake()
    reports.input_ended("a", 0)
    assert reports.take(0) == [SubtaskSnapshot("a", 0, 1), InputEnded("a", 0)]
    assert reports.take(0) == []


def test_a_wake_ends_the_wait() -> None:
    reports = Reports()
    threading.Timer(0.02, reports.wake).start()
    began_s = time.monotonic()
    assert reports.take(int(1_000 * WAIT_SECONDS)) == []
    assert time.monotonic() - began_s < WAIT_SECONDS
