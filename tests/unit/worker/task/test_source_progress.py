"""Event time of a source subtask: own watermarks, the minimum, idleness, floors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connect.source import Run, SplitId
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.source_state import AppliedFloor, SourceState, SplitState, merged
from headrace.worker.task.source_progress import SourceProgress

P0, P1 = SplitId("t", 0), SplitId("t", 1)


def clock(lag_ms: int = 0, *splits: SplitId, recorded: tuple[AppliedFloor, ...] = ()) -> SourceProgress:
    time = SourceProgress("s", lag_ms, recorded)
    for split in splits or (P0, P1):
        time.add(split, 0)
    return time


def observe(time: SourceProgress, split: SplitId, *ts: int, at: int = 0) -> list[int] | None:
    positions = np.arange(at, at + len(ts), dtype=np.int64)
    found = time.observe([Run(split, 0, len(ts))], np.array(ts, dtype=np.int64), positions)
    return None if found is None else found.tolist()


def test_a_row_has_the_watermark_of_its_partition_just_after_it() -> None:
    time = clock(2, P0)
    assert observe(time, P0, 10, 20, 17, 16) == [7, 17, 17, 17]


def test_rows_that_nothing_can_call_late_carry_no_watermark() -> None:
    time = clock(5, P0)
    assert observe(time, P0, 10, 12, 9) is None
    assert time.advance(None) == 6


def test_time_is_the_minimum_over_partitions_and_waits_for_a_silent_one() -> None:
    time = clock(0)
    observe(time, P0, 100)
    assert time.advance(None) is None
    observe(time, P1, 50)
    assert time.advance(None) == 49
    assert time.advance(None) is None


def test_an_idle_partition_stands_at_the_relayed_height_and_resumes_at_what_was_emitted() -> None:
    time = clock(0)
    observe(time, P0, 100)
    observe(time, P1, 10)
    assert time.advance(None) == 9
    time.set_idle([P1])
    assert time.active_height() == 99
    assert time.advance(99) == 99
    assert observe(time, P1, 40, 120, at=1) == [99, 119]
    assert time.applied == [AppliedFloor("s", "t", 1, 1, 99)]


def test_all_idle_and_no_relay_moves_nothing() -> None:
    time = clock(0)
    observe(time, P0, 100)
    observe(time, P1, 10)
    time.set_idle([P0, P1])
    assert time.active_height() is None
    assert time.advance(None) is None
    assert time.advance(70) == 70


def test_a_subtask_without_partitions_stands_at_the_relayed_height() -> None:
    time = SourceProgress("s", 0)
    assert time.advance(None) is None
    assert time.advance(5) == 5


def test_a_newly_found_partition_starts_at_what_was_emitted() -> None:
    time = clock(0, P0)
    observe(time, P0, 100)
    assert time.advance(None) == 99
    time.add(P1, 0)
    assert observe(time, P1, 7) == [99]
    assert time.applied == [AppliedFloor("s", "t", 1, 0, 99)]


def test_a_finished_partition_holds_nobody_back() -> None:
    time = clock(0)
    observe(time, P0, 100)
    time.finish([P1])
    assert time.advance(None) == 99
    time.finish([P0])
    assert time.finished
    assert time.advance(None) == TIME_MAX


def test_recorded_floors_take_effect_at_their_positions() -> None:
    time = clock(0, P0, recorded=(AppliedFloor("s", "t", 0, 2, 99), AppliedFloor("other", "t", 0, 0, 999)))
    assert observe(time, P0, 1, 2, 3, 120) == [0, 1, 99, 119]


rows_of = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 60), st.sampled_from(["row", "idle", "emit"])), max_size=40
)


@given(rows_of, st.integers(0, 10))
@settings(deadline=None)
def test_emitted_time_never_passes_a_later_row_and_recorded_floors_reproduce_the_rows(
    script: list[tuple[int, int, str]], lag_ms: int
) -> None:
    """A live run with idle partitions, then the same rows from the start with the floors it recorded: the same `__wm`
    for every row that matters, and W <= __wm of all rows after it."""
    splits = [SplitId("t", number) for number in range(3)]
    live = SourceProgress("s", lag_ms)
    for split in splits:
        live.add(split, 0)
    positions = dict.fromkeys(splits, 0)
    emitted = TIME_MIN
    log: list[tuple[SplitId, int, int, int]] = []
    for number, ts, action in script:
        split = splits[number]
        if action == "idle":
            live.set_idle([split])
        elif action == "emit":
            emitted = max(emitted, live.advance(live.active_height()) or TIME_MIN)
        else:
            found = observe(live, split, ts, at=positions[split])
            watermark = TIME_MIN if found is None else found[0]
            assert found is None or watermark >= emitted
            assert found is not None or ts > emitted
            log.append((split, positions[split], ts, watermark))
            positions[split] += 1
            live.moved({split: positions[split]})
    again = SourceProgress("s", lag_ms, live.applied)
    for split in splits:
        again.add(split, 0)
    for split, position, ts, watermark in log:
        found = observe(again, split, ts, at=position)
        assert (TIME_MIN if found is None else found[0]) == watermark


def fresh(states: list[SourceState], subtasks: int, lag_ms: int, owner: Callable[[int], int]) -> list[SourceProgress]:
    """Source times that go on from a checkpoint; partition n belongs to subtask owner(n)."""
    state = merged(states)
    times = [SourceProgress("s", lag_ms, state.applied) for _ in range(subtasks)]
    for split in state.splits:
        own = times[owner(split.partition) % subtasks]
        own.add(SplitId(split.topic, split.partition), split.position, split, state.emitted)
    return times


Step = tuple[int, int, str]
steps_of = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.sampled_from(["row", "row", "found", "idle", "emit"])),
    max_size=50,
)
Log = list[tuple[SplitId, int, int, int]]
"""Partition, position, event time, `__wm` (TIME_MIN: it does not matter)."""


def play(times: list[SourceProgress], steps: list[Step], log: Log, emitted: list[int]) -> None:
    """Rows, discovery, idleness and watermarks of a source; partition n that is found belongs to subtask n."""
    for number, ts, action in steps:
        split = SplitId("t", number)
        holder = next((time for time in times if split in held(time)), None)
        match action:
            case "emit":
                heights = [height for time in times if (height := time.active_height()) is not None]
                relayed = min(heights, default=None)
                for place, time in enumerate(times):
                    emitted[place] = max(emitted[place], time.advance(relayed) or TIME_MIN)
            case "found" if holder is None:
                times[number % len(times)].add(split, 0)
            case "idle" if holder is not None:
                holder.set_idle([split])
            case "row" if holder is not None:
                at = next(state.position for state in holder.snapshot().splits if state.partition == number)
                found = observe(holder, split, ts, at=at)
                holder.moved({split: at + 1})
                log.append((split, at, ts, TIME_MIN if found is None else found[0]))
                assert log[-1][3] >= min(emitted) or ts > min(emitted), "time never passes a later row"


def held(time: SourceProgress) -> set[SplitId]:
    return {SplitId(state.topic, state.partition) for state in time.snapshot().splits}


@given(steps_of, steps_of, st.integers(0, 10), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3))
@settings(deadline=None)
def test_a_source_goes_on_from_any_cut_with_its_partitions_anywhere(
    before: list[Step], after: list[Step], lag_ms: int, subtasks: int, others: int, shift: int
) -> None:
    """Without idleness and discovery after the cut, rows have the same `__wm`; in any case time passes no row, and a
    run from the start with the recorded floors gives the same."""
    log: Log = []
    emitted = [TIME_MIN] * subtasks
    straight = [SourceProgress("s", lag_ms) for _ in range(subtasks)]
    play(straight, before, log, emitted)
    states = [time.snapshot() for time in straight]
    restored = fresh(states, others, lag_ms, lambda number: number + shift)
    cut, plain = len(log), [step for step in after if step[2] in ("row", "emit")]
    if not any(step[2] == "idle" for step in before):
        same = fresh(states, others, lag_ms, lambda number: number + shift)
        straight_log, restored_log = list(log), list(log)
        play(straight, plain, straight_log, list(emitted))
        play(same, plain, restored_log, [min(emitted)] * others)
        assert straight_log == restored_log
    play(restored, after, log, [min(emitted)] * others)
    floors = merged([time.snapshot() for time in restored]).applied
    kept = {floor for time in restored for floor in time.applied}
    assert {floor for state in states for floor in state.applied} <= kept, "for the job's life"
    again = SourceProgress("s", lag_ms, floors)
    for split in sorted({entry[0] for entry in log}):
        again.add(split, 0)
    for split, position, ts, watermark in log:
        found = observe(again, split, ts, at=position)
        assert (TIME_MIN if found is None else found[0]) == watermark, (position, cut)


def test_a_snapshot_holds_what_a_restore_needs() -> None:
    time = clock(5)
    observe(time, P0, 100)
    time.moved({P0: 1})
    assert time.snapshot() == SourceState((SplitState("t", 0, 1, 100, 94), SplitState("t", 1, 0)), None)
    time.set_idle([P1])
    assert time.advance(94) == 94
    assert time.snapshot() == SourceState((SplitState("t", 0, 1, 100, 94), SplitState("t", 1, 0, None, 94)), 94)
    time.finish([P0, P1])
    assert time.advance(None) == TIME_MAX
    assert time.snapshot().emitted == 94, "the end of time is not written down"
    assert [state.finished for state in time.snapshot().splits] == [True, True]


def test_a_partition_without_state_stands_at_least_at_what_the_source_ever_emitted() -> None:
    time = SourceProgress("s", 0)
    time.add(P0, 7, SplitState("t", 0, 7, 50, 80), 90)
    time.add(P1, 0, None, 90)
    assert time.active_height() == 80
    assert time.applied == [AppliedFloor("s", "t", 0, 7, 80), AppliedFloor("s", "t", 1, 0, 90)]
    assert time.snapshot().emitted == 90


def test_in_a_hand_over_a_finished_partition_keeps_its_own_watermark() -> None:
    time = SourceProgress("s", 0, hand_over=True)
    time.add(P0, 0)
    time.add(P1, 0)
    observe(time, P0, 100)
    observe(time, P1, 40)
    time.finish([P0, P1])
    assert time.advance(None) == 39
    assert time.snapshot().splits[0] == SplitState("t", 0, 0, 100, 99, finished=True)


@given(
    rows=st.lists(st.tuples(st.sampled_from([P0, P1]), st.integers(0, 60)), min_size=1, max_size=30),
    cut=st.integers(0, 30),
    lags=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_time_does_not_go_back_at_a_restore(rows: list[tuple[SplitId, int]], cut: int, lags: tuple[int, int]) -> None:
    """Whatever the out-of-orderness is then: rows behind the cut are late at least for what was emitted before it."""
    before, after = (SourceProgress("s", lag) for lag in lags)
    for split in (P0, P1):
        before.add(split, 0)
    for position, (split, ts) in enumerate(rows[:cut]):
        observe(before, split, ts, at=position)
    emitted = before.advance(None)
    state = before.snapshot()
    for split, part in zip((P0, P1), state.splits, strict=True):
        after.add(split, cut, part, state.emitted)
    if emitted is not None:
        assert after.advance(None) is not None, "it stands there at once"
    for position, (split, ts) in enumerate(rows[cut:], start=cut):
        found = observe(after, split, ts, at=position)
        if emitted is not None and ts <= emitted:
            assert found is not None
            assert found[0] >= emitted
    if lags[0] == lags[1]:
        assert after.applied == [], "the same setting needs no floor"


def test_a_subtask_without_partitions_holds_nothing_back_in_the_end() -> None:
    time = SourceProgress("s", 0)
    assert time.advance(5) == 5
    assert time.settle(5) == TIME_MAX
    assert time.snapshot().emitted == 5
    time.add(P0, 0)
    observe(time, P0, 100)
    assert time.settle(None) == 99


def test_partitions_past_a_height_are_those_still_read() -> None:
    time = clock(10)
    observe(time, P0, 100)
    observe(time, P1, 50)
    assert time.past(39) == {P0}
    assert time.past(89) == frozenset()
    time.finish([P0])
    assert time.past(0) == {P1}
