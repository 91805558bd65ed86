"""A reader that is polled one batch ahead: one batch and no more, in order, and one thread at a time."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.source import Polled, RowBatch, Run, Split, SplitId
from headrace.core.clock import SystemClock
from headrace.worker.task.read_ahead import ReadAhead, is_behind
from support.control.scripted import frame
from support.processes.running import WAIT_SECONDS, wait_until

P0 = SplitId("t", 0)
ROWS_MAX = 4
FULL, FEW = 4, 1
"""Sizes of batches: the source is behind, or it keeps up."""


def batch_of(first: int, rows: int) -> RowBatch:
    """Rows at the positions from `first` on."""
    numbers = range(first, first + rows)
    return RowBatch(frame([(n, n) for n in numbers]), np.array(numbers, dtype=np.int64), (Run(P0, 0, rows),))


class StagedReader:
    """Returns batches of these sizes, one a poll, then nothing. Fails if two threads are inside of it at once.

    inside   called in each poll with its number, from 1, before it returns
    """

    def __init__(self, sizes: Sequence[int], *, ends: bool = False) -> None:
        self.sizes, self.ends = list(sizes), ends
        self.polls = self.position = 0
        self.threads: list[int] = []
        self.calls: list[str] = []
        self.inside: Callable[[int], None] = lambda _: None
        self._alone = threading.Lock()

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        assert self._alone.acquire(blocking=False), f"{name} while another thread uses the reader"
        try:
            self.calls.append(name)
            yield
        finally:
            self._alone.release()

    def assign(self, splits: Sequence[Split]) -> None:
        with self._call("assign"):
            pass

    def poll(self, timeout_ms: int) -> Polled:
        with self._call("poll"):
            self.polls += 1
            self.threads.append(threading.get_ident())
            self.inside(self.polls)
            rows = self.sizes[self.polls - 1] if self.polls <= len(self.sizes) else 0
            finished = frozenset([P0]) if self.ends and self.polls >= len(self.sizes) else frozenset[SplitId]()
            if not rows:
                return Polled(finished=finished)
            first, self.position = self.position, self.position + rows
            return Polled(batch_of(first, rows), {P0: self.position}, finished=finished)

    def pause(self, splits: Sequence[SplitId]) -> None:
        with self._call("pause"):
            pass

    def resume(self, splits: Sequence[SplitId]) -> None:
        with self._call("resume"):
            pass

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        with self._call("commit"):
            pass

    def close(self) -> None:
        with self._call("close"):
            pass


@contextmanager
def ahead_of(reader: StagedReader, *, allowed: bool = True) -> Iterator[ReadAhead]:
    """The reader polled ahead, with one split; ended behind the block."""
    ahead = ReadAhead(reader, SystemClock(), name="ahead", rows_max=ROWS_MAX, allowed=allowed)
    ahead.assign([Split(P0, 0)])
    try:
        yield ahead
    finally:
        ahead.end()


def polls(reader: StagedReader, count: int) -> None:
    wait_until(lambda: reader.polls == count, f"{count} polls")


def positions_of(polled: Polled) -> list[int]:
    return [] if polled.batch is None else polled.batch.positions.tolist()


@pytest.mark.parametrize(("rows", "behind"), [(0, False), (1, False), (2, True), (4, True)])
def test_a_batch_at_least_half_full_shows_that_the_source_is_behind(rows: int, behind: bool) -> None:
    assert is_behind(Polled(batch_of(0, rows) if rows else None), ROWS_MAX) is behind


def test_the_next_poll_runs_while_the_loop_works_and_no_further_one() -> None:
    reader = StagedReader([FULL] * 4)
    with ahead_of(reader) as ahead:
        assert positions_of(ahead.poll(1).polled) == [0, 1, 2, 3]
        polls(reader, 2)
        assert positions_of(ahead.poll(1).polled) == [4, 5, 6, 7]
        polls(reader, 3)
        ahead.commit({})  # waits for the poll ahead: no other one has begun
        assert reader.polls == 3
    assert reader.threads[0] == threading.get_ident() != reader.threads[1] == reader.threads[2]


@pytest.mark.parametrize(("size", "allowed"), [(FEW, True), (FULL, False)])
def test_a_source_that_keeps_up_or_may_not_is_polled_in_the_thread_of_the_loop(size: int, allowed: bool) -> None:
    reader = StagedReader([size] * 3)
    with ahead_of(reader, allowed=allowed) as ahead:
        for number in range(3):
            assert positions_of(ahead.poll(1).polled)[0] == number * size
            assert reader.polls == number + 1
    assert set(reader.threads) == {threading.get_ident()}


def test_a_source_that_has_caught_up_is_polled_in_the_thread_of_the_loop_again() -> None:
    reader = StagedReader([FULL, FEW, FEW])
    with ahead_of(reader) as ahead:
        for _ in range(3):
            ahead.poll(1)
    assert reader.threads[0] == reader.threads[2] == threading.get_ident() != reader.threads[1]


def test_nothing_is_polled_ahead_once_every_split_has_finished() -> None:
    reader = StagedReader([FULL, FULL], ends=True)
    with ahead_of(reader) as ahead:
        ahead.poll(1)
        assert ahead.poll(1).polled.finished == {P0}
    assert reader.polls == 2


def test_an_error_of_the_poll_ahead_comes_in_the_place_of_its_batch_with_its_trace() -> None:
    reader = StagedReader([FULL, FULL])

    def lost_offset(poll: int) -> None:
        if poll == 2:
            raise ValueError("offset 4 is gone")

    reader.inside = lost_offset
    with ahead_of(reader) as ahead:
        assert positions_of(ahead.poll(1).polled) == [0, 1, 2, 3]
        polls(reader, 2)
        ahead.pause([P0])  # another call does not raise it
        with pytest.raises(ValueError, match="offset 4 is gone") as raised:
            ahead.poll(1)
    names = [entry.name for entry in traceback.extract_tb(raised.value.__traceback__)]
    assert "lost_offset" in names


def test_an_error_behind_the_last_batch_that_was_taken_is_nobodys() -> None:
    reader = StagedReader([FULL])

    def fails(poll: int) -> None:
        if poll == 2:
            raise ValueError("gone")

    reader.inside = fails
    with ahead_of(reader) as ahead:
        ahead.poll(1)
        polls(reader, 2)


@pytest.mark.parametrize("name", ["assign", "pause", "resume", "commit"])
def test_other_calls_wait_for_the_poll_ahead_and_keep_its_batch(name: str) -> None:
    reader = StagedReader([FULL, FULL])
    go_on = threading.Event()

    def blocks(poll: int) -> None:
        if poll == 2:
            assert go_on.wait(WAIT_SECONDS)

    reader.inside = blocks
    with ahead_of(reader) as ahead:
        ahead.poll(1)
        polls(reader, 2)
        call = {
            "assign": lambda: ahead.assign([Split(SplitId("t", 1), 0)]),
            "pause": lambda: ahead.pause([P0]),
            "resume": lambda: ahead.resume([P0]),
            "commit": lambda: ahead.commit({P0: 4}),
        }[name]
        caller = threading.Thread(target=call)
        caller.start()
        assert reader.calls == ["assign", "poll", "poll"]
        go_on.set()
        caller.join(WAIT_SECONDS)
        assert reader.calls == ["assign", "poll", "poll", name]
        assert positions_of(ahead.poll(1).polled) == [4, 5, 6, 7]


def test_the_end_waits_for_the_poll_ahead_and_then_nobody_uses_the_reader() -> None:
    reader = StagedReader([FULL, FULL])
    go_on = threading.Event()

    def blocks(poll: int) -> None:
        if poll == 2:
            assert go_on.wait(WAIT_SECONDS)

    reader.inside = blocks
    ahead = ReadAhead(reader, SystemClock(), name="ahead-that-ends", rows_max=ROWS_MAX, allowed=True)
    ahead.assign([Split(P0, 0)])
    ahead.poll(1)
    polls(reader, 2)
    ending = threading.Thread(target=ahead.end)
    ending.start()
    assert ending.is_alive()
    go_on.set()
    ending.join(WAIT_SECONDS)
    assert not ending.is_alive()
    assert not any(thread.name == "ahead-that-ends" for thread in threading.enumerate())
    reader.close()


def test_a_reader_that_was_never_polled_ahead_ends_at_once() -> None:
    ReadAhead(StagedReader([]), SystemClock(), name="ahead", rows_max=ROWS_MAX, allowed=True).end()


def test_the_time_of_a_reading_is_that_of_its_poll() -> None:
    class Clock(SystemClock):
        ms = 5

        def monotonic_ms(self) -> int:
            return self.ms

    clock, reader = Clock(), StagedReader([FULL, FULL])
    ahead = ReadAhead(reader, clock, name="ahead", rows_max=ROWS_MAX, allowed=True)
    ahead.assign([Split(P0, 0)])
    assert ahead.poll(1).ended_ms == 5
    ahead.commit({})  # the poll ahead has ended
    clock.ms = 1_000
    assert ahead.poll(1).ended_ms == 5
    ahead.end()


operations = st.lists(st.sampled_from(["poll", "poll", "poll", "assign", "pause", "resume", "commit"]), max_size=30)


@given(sizes=st.lists(st.integers(0, FULL), max_size=12), operations=operations)
def test_whatever_the_loop_does_rows_come_once_in_order_and_positions_with_them(
    sizes: list[int], operations: list[str]
) -> None:
    reader, others = StagedReader(sizes), iter(range(1, 100))
    position = 0
    with ahead_of(reader) as ahead:
        for name in operations:
            match name:
                case "poll":
                    polled = ahead.poll(1).polled
                    rows = positions_of(polled)
                    assert rows == list(range(position, position + len(rows)))
                    position = polled.positions.get(P0, position)
                    assert position == (rows[-1] + 1 if rows else position)
                case "assign":
                    ahead.assign([Split(SplitId("t", next(others)), 0)])
                case "pause":
                    ahead.pause([P0])
                case "resume":
                    ahead.resume([P0])
                case _:
                    ahead.commit({P0: position})
    # at most one batch was read and not handed over
    assert reader.position - position <= FULL
    assert reader.calls.count("poll") <= operations.count("poll") + 1
