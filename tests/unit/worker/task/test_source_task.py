"""The loop of a source subtask: what it sends for what it is told, in which order, and when it leaves.

Every test runs twice: polls in turn with the chain, and one batch ahead of it.
"""

from __future__ import annotations

import polars as pl
import pytest

from headrace.connect.source import Split
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, EndOfInput, Watermark
from headrace.core.source_state import SourceState, SplitState
from headrace.exchange.mailbox import TaskCancelledError
from headrace.worker.control import (
    Assign,
    AssignedSplit,
    Command,
    Complete,
    Limit,
    Relay,
    StopReading,
    Trigger,
)
from headrace.worker.task.split_table import QUIET_AFTER_MS
from support.control.running_source import P0, P1, assign, running
from support.processes.running import WAIT_SECONDS

pytestmark = pytest.mark.usefixtures("ahead")


def test_after_its_end_a_source_still_passes_barriers_until_it_is_told_to_leave() -> None:
    with running([[1, 5]]) as source:
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.sent.ended == 1)
        source.tell(Trigger(4))
        source.sees(lambda: len(source.sent.snapshots) == 1)
        source.tell(Complete(4))
        source.sees(lambda: source.reader.committed == [{P0: 2}])
        source.finish()
    assert source.sent.signals == [Watermark(TIME_MAX), EndOfInput(), Barrier(4)]
    assert source.sent.times == [1, 5]
    (snapshot,) = source.sent.snapshots
    assert snapshot.source is not None
    assert snapshot.source[1].splits == (SplitState("t", 0, 2, 5, 4, finished=True),)
    assert source.raised is None
    assert not source.task.cut_short


def test_a_barrier_comes_before_anything_was_assigned() -> None:
    with running([]) as source:
        source.tell(Trigger(1))
        source.sees(lambda: len(source.sent.snapshots) == 1)
        source.tell(Assign((), final=True))
        source.sees(lambda: source.sent.ended == 1)
        source.finish()
    assert source.sent.signals == [Barrier(1), Watermark(TIME_MAX), EndOfInput()]
    assert source.sent.snapshots[0].source == ("src", SourceState())


@pytest.mark.parametrize("drain", [False, True])
def test_after_a_stop_nothing_follows_the_barrier(drain: bool) -> None:
    with running([[1], [2]], ends=False) as source:
        source.tell(assign(Split(P0, 0), Split(P1, 0)))
        # handed over: a batch ahead would be dropped
        source.sees(lambda: source.sent.times == [1, 2])
        source.tell(Trigger(7, stop=True, drain=drain))
        source.sees(lambda: len(source.sent.snapshots) == 1)
        source.tell(Complete(7), StopReading())
        source.sees(lambda: source.reader.committed == [{P0: 1, P1: 1}])
        source.finish()
    assert source.sent.elements[-1] == Barrier(7)
    assert source.sent.signals == [*([Watermark(TIME_MAX)] if drain else []), Barrier(7)]
    assert source.sent.ended == 0
    state = source.sent.snapshots[0].source
    assert state is not None
    assert state[1].splits == (SplitState("t", 0, 1, 1, 0), SplitState("t", 1, 1, 2, 1))


@pytest.mark.parametrize("ending", ["barrier", "stop", "stop reading", "hand-over"])
def test_time_stands_where_the_rows_have_put_it(ending: str) -> None:
    """Also within the interval between two watermarks, which here never ends."""
    hand_over = ending == "hand-over"
    with running([[1, 40, 41], [2, 50]], ends=hand_over, hand_over=hand_over, interval_ms=10**9) as source:
        source.tell(assign(Split(P0, 0), Split(P1, 0)))
        source.sees(lambda: sorted(source.sent.times) == [1, 2, 40, 41, 50])
        commands: dict[str, list[Command]] = {
            "barrier": [Trigger(3)],
            "stop": [Trigger(3, stop=True)],
            "stop reading": [StopReading()],
        }
        source.tell(*commands.get(ending, []))
        source.sees(lambda: isinstance(source.sent.elements[-1], Barrier | EndOfInput))
        source.finish()
    times = [element for element in source.sent.elements if isinstance(element, Watermark)]
    assert times[-1] == Watermark(40)
    assert source.sent.elements[-2] == Watermark(40), "before the barrier or the end"


@pytest.mark.parametrize("command", [Trigger(3, stop=True), StopReading()])
def test_a_subtask_without_splits_holds_no_time_back_at_the_end(command: Command) -> None:
    with running([], ends=False) as source:
        source.tell(Assign((), final=False), command)
        source.sees(lambda: len(source.sent.signals) > 1)
        source.finish()
    assert source.sent.signals[0] == Watermark(TIME_MAX)


def test_told_to_stop_reading_it_ends_without_closing_windows() -> None:
    with running([[1]], ends=False) as source:
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.reader.given == [1])
        source.tell(StopReading(), Trigger(2))
        source.sees(lambda: len(source.sent.snapshots) == 1)
        source.finish()
    assert source.sent.signals == [EndOfInput(), Barrier(2)]
    assert source.task.cut_short
    assert source.sent.ended == 1


@pytest.mark.parametrize("after_end", [False, True])
def test_cancel_wakes_it_wherever_it_waits(after_end: bool) -> None:
    with running([[1]]) as source:
        if after_end:
            source.tell(assign(Split(P0, 0)))
            source.sees(lambda: source.sent.ended == 1)
        source.task.cancel()
        source.thread.join(WAIT_SECONDS)
        assert isinstance(source.raised, TaskCancelledError)


def test_a_finished_split_is_not_read_again_and_others_go_on_at_their_height() -> None:
    done, half = SplitState("t", 0, 2, 9, None, finished=True), SplitState("t", 1, 1, 3, 8)
    with running([[1, 9, 10], [3, 4, 30]]) as source:
        source.tell(
            Assign((AssignedSplit(Split(P0, 2, 2), done), AssignedSplit(Split(P1, 1), half)), final=True, emitted=8)
        )
        source.sees(lambda: source.sent.ended == 1)
        source.tell(Trigger(3), Complete(3))
        source.sees(lambda: bool(source.reader.committed))
        source.finish()
    assert source.reader.asked == ["assign t[1]@1"]
    assert source.sent.times == [4, 30]
    first = next(each for each in source.sent.elements if isinstance(each, pl.DataFrame))
    assert first.get_column("__wm").to_list() == [8]
    assert source.reader.committed == [{P1: 3}]
    assert source.sent.snapshots[0].source is not None
    assert source.sent.snapshots[0].source[1].splits[0].finished


def test_a_split_that_was_finished_goes_on_to_a_later_stop() -> None:
    done = SplitState("t", 0, 1, 5, 7, finished=True)
    with running([[5, 6, 20]]) as source:
        source.tell(Assign((AssignedSplit(Split(P0, 1, 3), done),), final=True))
        source.sees(lambda: source.sent.ended == 1)
        source.finish()
    assert source.sent.times == [6, 20]


def test_partitions_past_the_limit_pause_and_go_on_once_it_has_grown() -> None:
    with running([[10, 1000, 1100], [20, 30]], ends=False, drift_ms=100) as source:
        source.tell(Limit(500), assign(Split(P0, 0), Split(P1, 0)))
        source.sees(lambda: source.reader.given == [10, 20, 1000, 30])
        source.sees(lambda: source.reader.paused == {P0})
        source.tell(Limit(1005))  # past it, but not far enough
        source.sees(lambda: source.task.status().watermark == 29)
        assert source.reader.paused == {P0}
        source.tell(Limit(1010))
        source.sees(lambda: source.reader.given[-1] == 1100)
        source.sees(lambda: source.reader.paused == {P0})
        source.tell(Limit(None))
        source.sees(lambda: not source.reader.paused)
        source.finish()
    asked = [line for line in source.reader.asked if not line.startswith("assign")]
    assert asked == ["pause t[0]", "resume t[0]", "pause t[0]", "resume t[0]"]


def test_a_partition_with_messages_that_were_not_delivered_yet_is_not_idle() -> None:
    """It was at its end, and the reader has not come to what was appended since: time must not pass over that."""
    with running([[100, 900], [50]], ends=False, idle_ms=1) as source:
        source.reader.lag = {P1: 3}
        source.tell(Relay(899), assign(Split(P0, 0), Split(P1, 0), final=False))
        source.sees(lambda: source.reader.given == [100, 50, 900])
        source.sees(lambda: source.task.status().watermark == 49)
        polls = source.reader.polls
        source.sees(lambda: source.reader.polls > polls + 50)
        assert source.task.status().watermark == 49
        source.reader.lag = {P1: 0}
        source.sees(lambda: source.task.status().watermark == 899)
        source.finish()


class Clock:
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.ms = self.readings = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        self.readings += 1
        return self.ms


def test_time_stands_until_the_splits_are_known() -> None:
    """A relayed height is that of other subtasks: the rows of this one, which may be older, would all be late."""
    clock = Clock()

    def emits_49() -> bool:
        clock.ms += 1
        return source.task.status().watermark == 49

    with running([[100], [50]], ends=False, clock=clock) as source:
        source.tell(Relay(899))
        readings = clock.readings
        source.sees(lambda: clock.readings > readings + 20)
        status = source.task.status()
        assert (status.active_height, status.watermark, status.has_splits) == (TIME_MIN, TIME_MIN, True)
        source.tell(assign(Split(P0, 0), Split(P1, 0), final=False))
        source.sees(emits_49)
        source.finish()


def test_a_subtask_without_splits_follows_the_relayed_height() -> None:
    with running([], ends=False) as source:
        source.tell(Relay(899), assign(final=False))
        source.sees(lambda: source.task.status().watermark == 899)
        status = source.task.status()
        assert (status.active_height, status.has_splits) == (None, False)
        source.finish()


def test_polls_are_long_while_no_row_comes() -> None:
    clock = Clock()
    log = [[1]]
    with running(log, ends=False, clock=clock) as source:
        waits_ms = source.reader.waits_ms
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: len(waits_ms) > 50)
        assert set(waits_ms) == {1}
        clock.ms = QUIET_AFTER_MS
        source.sees(lambda: waits_ms[-1] == 20)
        log[0].append(2)
        source.sees(lambda: source.sent.times == [1, 2])
        source.sees(lambda: waits_ms[-1] == 1)
        source.tell(Trigger(1))
        source.sees(lambda: len(source.sent.snapshots) == 1)


def test_polls_stay_short_while_a_partition_is_paused() -> None:
    clock = Clock()
    with running([[10, 1000, 1100], [20]], ends=False, drift_ms=100, clock=clock) as source:
        source.tell(Limit(500), assign(Split(P0, 0), Split(P1, 0)))
        source.sees(lambda: source.reader.paused == {P0})
        clock.ms = 2 * QUIET_AFTER_MS
        polls = source.reader.polls
        source.sees(lambda: source.reader.polls > polls + 50)
        assert set(source.reader.waits_ms[polls:]) == {1}
        source.tell(Limit(None))
        source.sees(lambda: source.reader.given[-1] == 1100)
