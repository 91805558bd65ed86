"""The tables of a source subtask, without a loop: positions and ends of splits, idle splits, pauses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.source import Polled, RowBatch, Run, Split, SplitId
from headrace.core.source_state import SplitState
from headrace.worker.control import Assign, AssignedSplit
from headrace.worker.task.split_table import QUIET_AFTER_MS, SNAPSHOTS_MAX, IdleRule, PauseRule, Pauses, SplitTable
from support.control.scripted import frame

P0, P1, P2 = SplitId("t", 0), SplitId("t", 1), SplitId("t", 2)


def _table(*splits: Split, final: bool = True) -> SplitTable:
    table = SplitTable()
    table.assign(Assign(tuple(AssignedSplit(split) for split in splits), final))
    return table


def _rows(*splits: SplitId) -> RowBatch:
    """One row of each split."""
    positions = np.arange(len(splits), dtype=np.int64)
    runs = tuple(Run(split, number, number + 1) for number, split in enumerate(splits))
    return RowBatch(frame([(1, number) for number in range(len(splits))]), positions, runs)


# splits


def test_before_the_first_assignment_nothing_is_known() -> None:
    table = SplitTable()
    assert (table.assigned, table.all_read, table.unread, table.positions) == (False, False, set(), {})


def test_all_is_read_once_each_split_has_ended_and_no_more_will_come() -> None:
    table = _table(Split(P0, 3), Split(P1, 0), final=False)
    table.polled(Polled(finished=frozenset({P0})))
    assert (table.unread, table.all_read) == ({P1}, False)
    table.polled(Polled(finished=frozenset({P1})))
    assert (table.unread, table.all_read) == (set(), False)
    table.assign(Assign((AssignedSplit(Split(P2, 0)),), final=True))
    assert (table.unread, table.all_read) == ({P2}, False)
    table.polled(Polled(finished=frozenset({P2})))
    assert table.all_read


def test_no_split_and_none_to_come_is_all() -> None:
    assert _table(final=True).all_read
    assert not _table(final=False).all_read


@pytest.mark.parametrize(
    ("start", "stop", "finished", "is_read"),
    [(2, 2, True, False), (2, None, True, False), (2, 5, True, True), (2, 5, False, True), (2, 2, False, True)],
)
def test_a_finished_split_is_read_again_only_if_its_stop_has_moved_on(
    start: int, stop: int | None, finished: bool, is_read: bool
) -> None:
    table = SplitTable()
    state = SplitState("t", 0, 2, 9, None, finished=finished)
    (added,) = table.assign(Assign((AssignedSplit(Split(P0, start, stop), state),), final=True))
    assert (P0 in table.unread) == is_read
    assert added.state is not None
    assert added.state.finished == (not is_read)
    assert table.positions == {P0: 2}


def test_positions_at_a_barrier_are_kept_until_the_commit() -> None:
    table = _table(Split(P0, 3), Split(P1, 0))
    table.at_barrier(1)
    table.polled(Polled(positions={P0: 7}))
    table.at_barrier(2)
    assert table.committed(2) == {P0: 7, P1: 0}
    assert table.committed(1) == {P0: 3, P1: 0}
    assert table.committed(1) is None


def test_a_split_that_was_over_before_is_not_committed_and_one_that_ended_now_is() -> None:
    table = SplitTable()
    over = SplitState("t", 0, 2, 9, None, finished=True)
    table.assign(Assign((AssignedSplit(Split(P0, 2), over), AssignedSplit(Split(P1, 0))), final=True))
    table.polled(Polled(positions={P1: 4}, finished=frozenset({P1})))
    table.at_barrier(1)
    assert table.positions == {P0: 2, P1: 4}
    assert table.committed(1) == {P1: 4}


def test_epochs_that_are_never_committed_are_dropped_the_oldest_first() -> None:
    table = _table(Split(P0, 0))
    for epoch in range(SNAPSHOTS_MAX + 2):
        table.at_barrier(epoch)
    assert table.committed(1) is None
    assert table.committed(2) == {P0: 0}
    assert table.committed(SNAPSHOTS_MAX + 1) == {P0: 0}


def test_lag_stays_as_reported_last() -> None:
    table = _table(Split(P0, 0))
    table.polled(Polled(lag={P0: 5}))
    table.polled(Polled(positions={P0: 1}))
    assert table.lag == {P0: 5}


# idle splits


def _rule(idle_after_ms: int | None = 100, now_ms: int = 0) -> IdleRule:
    rule = IdleRule(idle_after_ms, now_ms)
    rule.restart([P0, P1], now_ms)
    return rule


def _polled(rule: IdleRule, ended_ms: int, polled: Polled) -> list[SplitId]:
    rule.polled(polled, ended_ms, has_rows=polled.batch is not None and len(polled.batch) > 0)
    return sorted(rule.idle(frozenset()))


def test_a_split_is_idle_at_the_end_of_its_log_after_the_time_without_rows() -> None:
    rule = _rule()
    assert _polled(rule, 99, Polled(at_end=frozenset({P0}))) == []
    assert _polled(rule, 100, Polled()) == [P0], "P1 is not at its end"
    assert _polled(rule, 150, Polled(_rows(P0))) == [], "a row came, and the end is not reported again"
    assert _polled(rule, 400, Polled()) == []
    assert _polled(rule, 401, Polled(at_end=frozenset({P0, P1}))) == [P0, P1]


def test_a_row_of_the_poll_that_reaches_the_end_counts() -> None:
    rule = _rule()
    assert _polled(rule, 300, Polled(_rows(P0), at_end=frozenset({P0}))) == []
    assert _polled(rule, 400, Polled()) == [P0]


def test_a_split_with_messages_in_the_client_is_not_idle() -> None:
    rule = _rule()
    assert _polled(rule, 200, Polled(at_end=frozenset({P0, P1}), lag={P0: 3, P1: 0})) == [P1]
    assert _polled(rule, 300, Polled(lag={P0: 0})) == [P1], "the reader reports the end again when it gets there"


def test_a_batch_without_rows_is_no_row() -> None:
    rule = _rule()
    rule.polled(Polled(at_end=frozenset({P0})), 0, has_rows=False)
    rule.polled(Polled(_rows()), 100, has_rows=False)
    assert rule.idle(frozenset()) == [P0]
    assert rule.quiet_from_ms == QUIET_AFTER_MS


def test_a_paused_split_is_not_idle_and_its_time_begins_again() -> None:
    rule = _rule()
    rule.polled(Polled(at_end=frozenset({P0})), 500, has_rows=False)
    assert rule.idle(frozenset({P0})) == []
    rule.restart([P0], 500)
    assert rule.idle(frozenset()) == []
    assert _polled(rule, 600, Polled()) == [P0]


def test_without_a_time_no_split_is_idle() -> None:
    rule = _rule(None)
    assert _polled(rule, 10**9, Polled(at_end=frozenset({P0, P1}))) == []


def test_idleness_goes_by_the_time_of_the_poll() -> None:
    """Rows may have come since, in a poll ahead: a late look at the clock must not count that time."""
    rule = _rule()
    rule.polled(Polled(at_end=frozenset({P0})), 99, has_rows=False)
    assert rule.without_rows_ms(P0, 5_000) == 5_000
    assert rule.idle(frozenset()) == []


def test_a_source_is_quiet_some_time_after_its_start_and_after_each_row() -> None:
    rule = _rule(now_ms=1_000)
    assert rule.quiet_from_ms == 1_000 + QUIET_AFTER_MS
    rule.polled(Polled(_rows(P0)), 1_050, has_rows=True)
    assert rule.quiet_from_ms == 1_050 + QUIET_AFTER_MS


def test_the_time_without_rows_is_never_negative() -> None:
    rule = _rule(now_ms=50)
    assert (rule.without_rows_ms(P0, 80), rule.without_rows_ms(P0, 40)) == (30, 0)


# pauses


class _Heights:
    """Own watermarks of splits."""

    def __init__(self, heights: Mapping[SplitId, int]) -> None:
        self.heights = heights

    def past(self, ts: int) -> frozenset[SplitId]:
        return frozenset(split for split, height in self.heights.items() if height > ts)


def test_splits_past_the_limit_pause_until_they_are_a_margin_below_it() -> None:
    rule, heights = PauseRule(100), _Heights({P0: 999, P1: 29, P2: 700})
    assert rule.align(500, heights.past) == Pauses(pause=(P0, P2), resume=())
    assert rule.align(500, heights.past) is None
    assert rule.align(1_000, heights.past) == Pauses(pause=(), resume=(P2,)), "P0 is within the margin of 10"
    assert rule.align(1_009, heights.past) == Pauses(pause=(), resume=(P0,))
    assert rule.paused == frozenset()


def test_without_a_limit_all_resume() -> None:
    rule, heights = PauseRule(None), _Heights({P1: 10, P0: 20})
    assert rule.align(None, heights.past) is None
    assert rule.align(0, heights.past) == Pauses(pause=(P0, P1), resume=())
    assert rule.align(None, heights.past) == Pauses(pause=(), resume=(P0, P1))


@given(
    st.integers(0, 200),
    st.lists(
        st.tuples(st.none() | st.integers(-50, 50), st.tuples(*[st.integers(-50, 50)] * 3)), min_size=1, max_size=12
    ),
)
def test_pauses_and_resumes_add_up(drift_ms: int, steps: list[tuple[int | None, tuple[int, int, int]]]) -> None:
    """After every step the paused splits are those past the limit, and those that were paused and are not yet a margin
    below it; what is returned leads from one set to the next."""
    rule, paused = PauseRule(drift_ms), frozenset[SplitId]()
    for limit, heights in steps:
        past = _Heights(dict(zip((P0, P1, P2), heights, strict=True))).past
        expected = frozenset[SplitId]() if limit is None else past(limit) | (paused & past(limit - drift_ms // 10))
        pauses = rule.align(limit, past) or Pauses((), ())
        assert rule.paused == expected
        assert pauses == Pauses(tuple(sorted(expected - paused)), tuple(sorted(paused - expected)))
        paused = expected
