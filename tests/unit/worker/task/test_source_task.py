"""The loop of a source subtask: what it sends for what it is told, in which order, and when it leaves.

Every test runs twice: polls in turn with the chain, and one batch ahead of it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest

from headrace.connect.source import Polled, RowBatch, Run, Split, SplitId
from headrace.core.batch import TS
from headrace.core.clock import Clock, SystemClock
from headrace.core.signals import TIME_MAX, Barrier, Element, EndOfInput, Signal, Watermark
from headrace.core.source_state import SourceState, SplitState
from headrace.core.types import schema_of
from headrace.exchange.mailbox import TaskCancelledError
from headrace.operators.operator import OnError
from headrace.plan.physical import RowTime, SourceSpec
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.control import (
    Assign,
    AssignedSplit,
    Command,
    Complete,
    Finish,
    Limit,
    Relay,
    StopReading,
    SubtaskSnapshot,
    Trigger,
)
from headrace.worker.task.ingest import Ingest
from headrace.worker.task.read_ahead import ReadAhead
from headrace.worker.task.source_progress import SourceProgress
from headrace.worker.task.source_task import SourceTask, SourceTiming
from support.control.scripted import SCHEMA, Script, ScriptedSource, frame
from support.processes.running import WAIT_SECONDS, wait_until

P0, P1 = SplitId("t", 0), SplitId("t", 1)


@pytest.fixture(params=[False, True], ids=["in-turn", "ahead"], autouse=True)
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether sources are polled ahead."""
    allowed: bool = request.param
    monkeypatch.setattr(Running, "ahead", allowed)
    return allowed


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
        self.inside: Callable[[int], None] = lambda _: None
        """Called in each poll with its number, from 1, before it reads."""

    def assign(self, splits: Sequence[Split]) -> None:
        self.asked.append(f"assign {' '.join(f'{split.id}@{split.start}' for split in splits)}")
        self.places |= {split.id: split.start for split in splits}

    def poll(self, timeout_ms: int) -> Polled:
        self.polls += 1
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
        time, clock = SourceProgress("src", 0), clock or SystemClock()
        self.task = SourceTask(
            spec,
            reader=ReadAhead(self.reader, clock, name="src-0-ahead", rows_max=1, allowed=self.ahead),
            ingest=Ingest(spec, None, time=time, rows=self.sent, bad=Nobody(), counters=Counter()),
            time=time,
            clock=clock,
            timing=SourceTiming(poll_ms=1, watermark_interval_ms=1),
            snapshots=SubtaskSnapshots("src", 0, self.sent),
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
) -> Iterator[Running]:
    source = Running(log, ends=ends, drift_ms=drift_ms, idle_ms=idle_ms, clock=clock)
    source.thread.start()
    try:
        yield source
    finally:
        source.task.cancel()
        source.thread.join(WAIT_SECONDS)


def assign(*splits: Split, final: bool = True) -> Assign:
    return Assign(tuple(AssignedSplit(split) for split in splits), final)


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
    assert snapshot.source[1].splits == (SplitState("t", 0, 2, 5, finished=True),)
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
    assert state[1].splits == (SplitState("t", 0, 1, 1), SplitState("t", 1, 1, 2))


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


def test_a_barrier_has_the_position_of_the_last_batch_that_the_chain_received() -> None:
    with running([[1, 5, 9]]) as source:
        source.once_ahead(lambda: source.tell(Trigger(4)))
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: source.sent.ended == 1)
        source.finish()
    kinds = [type(element) for element in source.sent.elements if not isinstance(element, Watermark)]
    assert kinds == [pl.DataFrame, Barrier, pl.DataFrame, pl.DataFrame, EndOfInput]
    assert source.state().splits == (SplitState("t", 0, 1, 1),)
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
        assert source.state().splits == (SplitState("t", 0, 1, 1),)
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
