"""The contract of every exactly-once sink, as tests for a connector's author, in addition to `sink_conformance`.

    class TestMySinkCommits(CommitterConformance):
        @pytest.fixture
        def sink(self) -> SinkUnderTest:
            config = MyConfig(.., delivery="exactly-once")
            return SinkUnderTest(config, SinkContext(.., schema=SCHEMA), visible=read_back)

`visible` reads committed rows. Each test is a job of its own, with external objects of its own. The suite acts as the
engine: it takes checkpoints, loses slots and coordinators, and starts attempts as `headrace.connect.sink` defines.
Values between writers, journal and committers pass through JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

from headrace.connect.sink import CheckpointTerms, Committable, Committer
from headrace.core.errors import HeadraceError
from headrace.testing.sink_conformance import Feeder, SinkUnderTest, by_number, made_rows, rows_of

TERMS = CheckpointTerms(
    interval_ms=1_000, timeout_ms=10_000, aligned=True, tolerable_failures=2, restart_delay_ms=1_000
)
"""Terms that every sink accepts."""

PATIENCE_S = 120.0
"""How long committed rows may take to become visible to others."""
_Seen = TypeVar("_Seen")


class _Attempt:
    """One attempt of a job with this sink: its writers, and the committer beside the coordinator."""

    def __init__(self, sink: SinkUnderTest, number: int = 1, *, parallelism: int = 1) -> None:
        self._config = sink.config
        context = replace(sink.context, parallelism=parallelism, checkpoint=sink.context.checkpoint or TERMS)
        self._contexts = [replace(context, subtask=each, attempt=number) for each in range(parallelism)]
        self.committer = opened_committer(sink)
        self.feeders = [Feeder(self._config, each) for each in self._contexts]

    @property
    def names(self) -> list[str]:
        """The names in the attempt's record."""
        return [name for context in self._contexts for name in self._config.transactions(context)]

    def write(self, begin: int, end: int) -> None:
        """Writes rows [begin, end), spread over the writers."""
        rows = made_rows(begin, end)
        for subtask, feeder in enumerate(self.feeders):
            feeder.write(rows[subtask :: len(self.feeders)])

    def flush(self, epoch: int) -> list[Committable]:
        """Flushes all writers, as at a barrier. Returns their committables."""
        return [_sent(each) for feeder in self.feeders for each in feeder.flush(epoch)]

    def decide(self, epoch: int) -> list[Committable]:
        """Flushes and describes. Returns the committables of the checkpoint's record."""
        return [_sent(each) for each in self.committer.describe(self.flush(epoch))]

    def checkpoint(self, epoch: int) -> list[Committable]:
        """Completes a checkpoint. Returns the committed committables."""
        decided = self.decide(epoch)
        assert not self.committer.commit(decided), "nothing is lost"
        self.committed(epoch, decided)
        return decided

    def committed(self, epoch: int, decided: Sequence[Committable]) -> None:
        """Notifies the writers that the `committed` record stands."""
        for feeder in self.feeders:
            feeder.committed(epoch, decided)

    def lose_slots(self) -> None:
        """Ends the slots; the coordinator lives."""
        for feeder in self.feeders:
            feeder.close()

    def lose_coordinator(self, sink: SinkUnderTest) -> None:
        """Replaces the coordinator: the new committer has no memory."""
        self.committer.close()
        self.committer = opened_committer(sink)

    def close(self) -> None:
        self.lose_slots()
        self.committer.close()
        self.committer.close()


def opened_committer(sink: SinkUnderTest) -> Committer:
    """Opens the sink's committer like a coordinator: before there is an attempt."""
    committer = sink.config.open_committer(replace(sink.context, checkpoint=sink.context.checkpoint or TERMS))
    assert committer is not None, "a sink that delivers exactly once has a committer"
    return committer


def _sent(committable: Committable) -> Committable:
    """Returns the committable after a round trip through a message or record."""
    return Committable(**json.loads(json.dumps(asdict(committable))))


def _settled(look: Callable[[], _Seen], wanted: _Seen) -> _Seen:
    """Returns what is visible once it equals the expectation, or after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen


def _assert_visible(sink: SinkUnderTest, *ranges: tuple[int, int]) -> None:
    """Asserts that exactly these rows are visible, each once, value for value."""
    wanted = rows_of(*(made_rows(begin, end) for begin, end in sorted(ranges)))
    assert _settled(lambda: by_number(sink.visible()), wanted) == wanted


def _assert_nothing_open(committer: Committer) -> None:
    assert _settled(lambda: len(committer.open_transactions()), 0) == 0


class CommitterConformance:
    """The tests. Subclass it and define the fixture `sink`."""

    def test_it_says_what_it_is(self, sink: SinkUnderTest) -> None:
        """The names of writers and attempts are known beforehand, stable, and disjoint."""
        assert sink.config.exactly_once
        contexts = [replace(sink.context, attempt=a, subtask=s, parallelism=2) for a in (1, 2) for s in (0, 1)]
        named = [sink.config.transactions(context) for context in contexts]
        assert named == [sink.config.transactions(context) for context in contexts]
        names = [name for each in named for name in each]
        assert len(set(names)) == len(names)

    def test_terms_that_cannot_hold_are_refused(self, sink: SinkUnderTest) -> None:
        """The sink rejects disabled and unaligned checkpoints; it accepts unknown terms."""

        def refused(terms: CheckpointTerms | None) -> bool:
            return bool(sink.config.check(replace(sink.context, checkpoint=terms)))

        assert not refused(None)
        assert not refused(TERMS)
        assert refused(replace(TERMS, interval_ms=None))
        assert refused(replace(TERMS, aligned=False))

    def test_rows_appear_by_the_commit(self, sink: SinkUnderTest) -> None:
        """Rows become visible at the commit, all at once: not at the barrier, and not at the decision."""
        attempt = _Attempt(sink)
        attempt.write(0, 23)
        _assert_visible(sink)
        prepared = attempt.flush(1)
        _assert_visible(sink)
        decided = attempt.committer.describe(prepared)
        _assert_visible(sink)
        assert not attempt.committer.commit(decided)
        _assert_visible(sink, (0, 23))
        attempt.close()

    def test_committables_tell_what_is_in_them(self, sink: SinkUnderTest) -> None:
        """A committable has its sink, its subtask, its epoch, and its number of rows."""
        attempt = _Attempt(sink, parallelism=2)
        attempt.write(0, 9)
        decided = attempt.decide(4)
        assert {each.sink for each in decided} == {sink.context.node}
        assert {each.epoch for each in decided} == {4}
        assert sorted((each.subtask, each.rows) for each in decided) == [(0, 5), (1, 4)]
        assert all(not each.name or each.name.startswith(tuple(attempt.names)) for each in decided)
        attempt.close()

    def test_a_second_commit_changes_nothing(self, sink: SinkUnderTest) -> None:
        """Commits are idempotent: for the same committer, and for one without memory of the first."""
        attempt = _Attempt(sink)
        attempt.write(0, 10)
        decided = attempt.checkpoint(1)
        assert not attempt.committer.commit(decided)
        attempt.lose_coordinator(sink)
        assert not attempt.committer.commit(decided)
        _assert_visible(sink, (0, 10))
        attempt.close()

    def test_a_commit_that_was_cut_short_goes_on(self, sink: SinkUnderTest) -> None:
        """A coordinator dies between two committables; the next one commits all."""
        attempt = _Attempt(sink, parallelism=3)
        attempt.write(0, 30)
        decided = attempt.decide(1)
        assert not attempt.committer.commit(decided[:1])
        attempt.lose_coordinator(sink)
        assert not attempt.committer.commit(decided)
        _assert_visible(sink, (0, 30))
        attempt.close()

    def test_prepared_output_outlives_its_writer(self, sink: SinkUnderTest) -> None:
        """The commit succeeds although the writers are closed and the coordinator was replaced."""
        attempt = _Attempt(sink, parallelism=2)
        attempt.write(0, 10)
        decided = attempt.decide(1)
        attempt.lose_slots()
        attempt.lose_coordinator(sink)
        _assert_visible(sink)
        assert not attempt.committer.commit(decided)
        _assert_visible(sink, (0, 10))
        attempt.close()

    def test_rows_after_the_barrier_belong_to_the_next_epoch(self, sink: SinkUnderTest) -> None:
        """Rows that are written before the previous epoch's commit do not become visible with it."""
        attempt = _Attempt(sink)
        attempt.write(0, 10)
        decided = attempt.decide(1)
        attempt.write(10, 20)
        assert not attempt.committer.commit(decided)
        attempt.committed(1, decided)
        _assert_visible(sink, (0, 10))
        attempt.write(20, 30)
        attempt.checkpoint(2)
        _assert_visible(sink, (0, 30))
        attempt.close()

    def test_many_epochs(self, sink: SinkUnderTest) -> None:
        """Each epoch adds its rows, a key's rows stay in order, and names do not run out."""
        attempt = _Attempt(sink)
        for epoch in range(1, 9):
            attempt.write(epoch * 10, epoch * 10 + 10)
            attempt.checkpoint(epoch)
            _assert_visible(sink, (10, epoch * 10 + 10))
        seen = sink.visible()
        attempt.close()
        for key in {row["key"] for row in seen}:
            numbers = [row["number"] for row in seen if row["key"] == key]
            assert numbers == sorted(numbers)

    def test_an_epoch_without_rows_has_nothing_to_commit(self, sink: SinkUnderTest) -> None:
        """Neither has a later epoch without rows."""
        attempt = _Attempt(sink)
        assert attempt.checkpoint(1) == []
        attempt.write(0, 3)
        attempt.checkpoint(2)
        assert attempt.checkpoint(3) == []
        _assert_visible(sink, (0, 3))
        attempt.close()

    def test_what_was_declined_rides_along(self, sink: SinkUnderTest) -> None:
        """An epoch that was abandoned before it was described is committed with the next one, once."""
        attempt = _Attempt(sink)
        attempt.write(0, 10)
        attempt.flush(1)
        self._ride_along(sink, attempt)

    def test_what_was_described_and_then_declined_rides_along(self, sink: SinkUnderTest) -> None:
        """The same for an epoch that was abandoned after it was described."""
        attempt = _Attempt(sink)
        attempt.write(0, 10)
        attempt.decide(1)
        self._ride_along(sink, attempt)

    def _ride_along(self, sink: SinkUnderTest, attempt: _Attempt) -> None:
        attempt.write(10, 20)
        decided = attempt.checkpoint(2)
        assert sum(each.rows for each in decided) == 20
        _assert_visible(sink, (0, 20))
        attempt.write(20, 25)
        assert sum(each.rows for each in attempt.checkpoint(3)) == 5
        _assert_visible(sink, (0, 25))
        attempt.close()

    def test_a_fence_ends_what_is_undecided(self, sink: SinkUnderTest) -> None:
        """Rows before an undecided barrier, and rows after it, are lost permanently; a later commit reports them as
        lost. The fence ignores names that were never used.
        """
        first = _Attempt(sink, parallelism=2)
        first.write(0, 10)
        undecided = [_sent(each) for each in first.committer.describe(first.flush(1))]
        first.write(10, 20)
        first.lose_slots()
        unused = replace(sink.context, attempt=1, subtask=5, parallelism=8)
        first.committer.fence([*first.names, *sink.config.transactions(unused)])
        first.committer.fence(first.names)
        assert sorted(each.subtask for each in first.committer.commit(undecided)) == [0, 1]
        _assert_visible(sink)
        _assert_nothing_open(first.committer)
        first.close()

    def test_the_next_attempt_begins_after_the_fence(self, sink: SinkUnderTest) -> None:
        """It commits decided output, fences the rest, and writes the lost rows again, at another parallelism."""
        first = _Attempt(sink, parallelism=2)
        first.write(0, 10)
        first.checkpoint(1)
        first.write(10, 20)
        decided = first.decide(2)
        first.write(20, 30)
        first.lose_slots()
        first.lose_coordinator(sink)
        assert not first.committer.commit(decided)
        first.committer.fence(first.names)
        second = _Attempt(sink, 2, parallelism=3)
        second.write(20, 40)
        second.checkpoint(3)
        _assert_visible(sink, (0, 40))
        first.committer.fence(first.names)
        _assert_visible(sink, (0, 40))
        first.close()
        second.close()

    def test_a_writer_that_was_fenced_publishes_nothing(self, sink: SinkUnderTest) -> None:
        """A suspended writer wakes up beside its successor: nobody commits its output."""
        first = _Attempt(sink)
        first.write(0, 10)
        first.checkpoint(1)
        first.write(10, 20)
        second = self._succeed(sink, first)
        second.write(10, 20)
        try:
            first.write(20, 30)
            first.flush(2)
        except HeadraceError:
            pass
        second.checkpoint(2)
        second.committer.sweep(2)
        _assert_visible(sink, (0, 20))
        _assert_nothing_open(second.committer)
        first.close()
        second.close()

    def test_a_sweep_ends_what_earlier_attempts_left(self, sink: SinkUnderTest) -> None:
        """A sweep leaves the prepared and published output of the running attempt alone."""
        first = _Attempt(sink)
        second = _Attempt(sink, 2)
        second.write(0, 10)
        second.checkpoint(1)
        second.write(10, 20)
        prepared = second.decide(2)
        assert not second.committer.sweep(2)
        first.write(100, 110)
        first.flush(1)
        ended = second.committer.sweep(2)
        assert ended
        assert all(name.startswith(tuple(first.names)) for name in ended)
        assert {each.name for each in second.committer.open_transactions()} <= {each.name for each in prepared}
        assert not second.committer.commit(prepared)
        _assert_visible(sink, (0, 20))
        first.close()
        second.close()

    def test_what_is_open_is_told_of(self, sink: SinkUnderTest) -> None:
        """From the barrier to the commit, a transaction is listed with its owner and the identity that a record
        contains.
        """
        attempt = _Attempt(sink, parallelism=2)
        attempt.write(0, 10)
        decided = attempt.decide(1)
        told = {each.subtask: each for each in attempt.committer.open_transactions()}
        assert sorted(told) == [0, 1]
        for each in decided:
            found = told[each.subtask]
            assert (found.name, found.sink, found.job) == (each.name, sink.context.node, sink.context.job)
            assert found.identity
            assert found.identity.items() <= each.payload.items()
            assert found.state
            assert found.places
        assert not attempt.committer.commit(decided)
        _assert_nothing_open(attempt.committer)
        attempt.close()

    def test_sinks_of_one_job_do_not_disturb_each_other(self, sink: SinkUnderTest) -> None:
        """Two sinks write to the same external system: each fences and sweeps only its own transactions."""
        other = replace(sink, context=replace(sink.context, node=f"{sink.context.node}_other"))
        ours, theirs = _Attempt(sink), _Attempt(other)
        ours.write(0, 10)
        theirs.write(10, 20)
        mine, foreign = ours.decide(1), theirs.decide(1)
        gone = _Attempt(other, 2)
        gone.write(50, 60)
        gone.flush(1)
        gone.committer.fence(gone.names)
        ours.committer.sweep(9)
        assert not theirs.committer.commit(foreign)
        _assert_visible(sink, (10, 20))
        assert [each.subtask for each in ours.committer.commit(mine)] == [0], "its own sweep has ended it"
        for attempt in (ours, theirs, gone):
            attempt.close()

    def _succeed(self, sink: SinkUnderTest, before: _Attempt) -> _Attempt:
        """Starts the next attempt while slots of the previous one still run."""
        fencing = opened_committer(sink)
        fencing.fence(before.names)
        fencing.close()
        return _Attempt(sink, 2)
