"""The loop of a source subtask while a batch is polled ahead: commands take effect between the batches that the chain
receives. Tests of what holds without a batch ahead, too, run in turn as well.
"""

from __future__ import annotations

import threading

import polars as pl
import pytest

from headrace.connect.source import Split
from headrace.core.clock import SystemClock
from headrace.core.signals import Barrier, EndOfInput, Watermark
from headrace.core.source_state import SplitState
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
from support.control.running_source import P0, P1, Running, assign, running
from support.processes.running import WAIT_SECONDS

pytestmark = pytest.mark.usefixtures("ahead")


def test_a_barrier_has_the_position_of_the_last_batch_that_the_chain_received() -> None:
    with running([[1, 5, 9]]) as source:
        source.once_ahead(lambda: source.tell(Trigger(4)))
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.sent.ended == 1)
        source.finish()
    kinds = [type(element) for element in source.sent.elements if not isinstance(element, Watermark)]
    assert kinds == [pl.DataFrame, Barrier, pl.DataFrame, pl.DataFrame, EndOfInput]
    assert source.state().splits == (SplitState("t", 0, 1, 1, 0),)
    assert source.sent.times == [1, 5, 9]


@pytest.mark.parametrize(
    "commands",
    [[Trigger(1, stop=True)], [Trigger(1, stop=True, drain=True)], [StopReading(), Trigger(1)]],
    ids=["stop", "drain", "stop reading"],
)
def test_a_stop_drops_the_batch_ahead_and_the_next_attempt_reads_it(commands: list[Command]) -> None:
    log = [[1, 5, 9]]
    with running(log) as source:
        source.once_ahead(lambda: source.tell(*commands))
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: len(source.sent.snapshots) == 1)
        source.tell(Complete(1))
        source.sees(lambda: source.reader.committed == [{P0: 1}])
        source.finish()
    assert source.sent.times == [1]
    (state,) = source.state().splits
    with running(log) as successor:
        successor.tell(Assign((AssignedSplit(Split(P0, state.position), state),), final=True))
        successor.sees(lambda: successor.sent.ended == 1)
        successor.finish()
    assert successor.sent.times == [5, 9]


def test_a_partition_that_pauses_still_delivers_its_rows_in_the_batch_ahead(ahead: bool) -> None:
    """The reader has moved past them: it would not return them again."""
    with running([[1000, 1001, 1002]], ends=False, drift_ms=100) as source:
        source.once_ahead(lambda: source.tell(Limit(500)))
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.reader.paused == {P0})
        polls = source.reader.polls
        source.sees(lambda: source.reader.polls > polls + 5)
        assert source.sent.times == ([1000, 1001] if ahead else [1000])
        source.tell(Limit(None))
        source.sees(lambda: source.sent.times == [1000, 1001, 1002])
        source.finish()


def test_a_split_is_added_while_a_batch_is_ahead() -> None:
    with running([[1, 5], [3, 7]]) as source:
        source.once_ahead(lambda: source.tell(assign(Split(P1, 0))))
        source.tell(assign(Split(P0, 0), final=False))
        source.sees(lambda: source.sent.ended == 1)
        source.finish()
    assert sorted(source.sent.times) == [1, 3, 5, 7]
    assert source.sent.times.index(1) < source.sent.times.index(5)


only_ahead = pytest.mark.parametrize("ahead", [True], indirect=True, ids=["ahead"])


def blocked_from_poll_2(source: Running) -> threading.Event:
    """The second poll waits for this."""
    go_on = threading.Event()

    def inside(poll: int) -> None:
        if poll == 2:
            assert go_on.wait(WAIT_SECONDS)

    source.reader.inside = inside
    return go_on


@only_ahead
def test_barriers_pass_while_the_poll_ahead_blocks() -> None:
    with running([[1, 5]], ends=False) as source:
        go_on = blocked_from_poll_2(source)
        source.sent.on_rows = lambda batch: source.tell(Trigger(1)) if batch == 1 else None
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: len(source.sent.snapshots) == 1)
        assert source.state().splits == (SplitState("t", 0, 1, 1, 0),)
        go_on.set()
        source.sees(lambda: source.sent.times == [1, 5])
        source.finish()


@only_ahead
def test_an_error_of_the_chain_is_reported_while_the_poll_ahead_blocks() -> None:
    def fails(batch: int) -> None:
        raise RuntimeError("no room")

    with running([[1, 5]]) as source:
        go_on = blocked_from_poll_2(source)
        source.sent.on_rows = fails
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.raised is not None)
        assert source.thread.is_alive(), "the reader is still in use: it must not be closed"
        go_on.set()
        source.thread.join(WAIT_SECONDS)
        assert not source.thread.is_alive()


@only_ahead
def test_a_cancel_waits_for_the_poll_ahead() -> None:
    with running([[1, 5]]) as source:
        go_on = blocked_from_poll_2(source)
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.reader.polls == 2)
        source.task.cancel()
        go_on.set()
        source.thread.join(WAIT_SECONDS)
        assert isinstance(source.raised, TaskCancelledError)
    assert source.reader.polls <= 3


@only_ahead
def test_an_error_of_the_poll_ahead_follows_the_rows_before_it() -> None:
    def inside(poll: int) -> None:
        if poll == 2:
            raise RuntimeError("offset 1 is gone")

    with running([[1, 5]]) as source:
        source.reader.inside = inside
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.raised is not None)
    assert source.sent.times == [1]
    assert str(source.raised) == "offset 1 is gone"


class StandingClock(SystemClock):
    """Goes on when a test says so. `polls_ahead`: how many polls ahead have ended and have their time."""

    ms = polls_ahead = 0

    def monotonic_ms(self) -> int:
        ms = self.ms
        self.polls_ahead += threading.current_thread().name.endswith("-ahead")
        return ms


@only_ahead
def test_a_partition_is_idle_by_the_time_of_the_poll_that_found_it_at_its_end() -> None:
    """The third poll finds P1 at its end before any time has passed. The chain then works on the second batch for so
    long that rows may have come since: P1 is idle when a later poll has found none."""
    clock = StandingClock()
    with running([[100, 900], [50]], ends=False, idle_ms=100, clock=clock) as source:

        def works(batch: int) -> None:
            if batch == 2:
                source.sees(lambda: clock.polls_ahead == 2)
                clock.ms = 1_000
            if batch == 3:
                clock.ms = 1_010

        source.sent.on_rows = works
        source.tell(Relay(899), assign(Split(P0, 0), Split(P1, 0), final=False))
        source.sees(lambda: source.reader.polls > 10)
        assert source.task.status().watermark == 49
        clock.ms = 1_020
        source.sees(lambda: source.task.status().watermark == 899)
        source.finish()
